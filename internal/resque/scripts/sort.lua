-- Moves jobs from the head of a queue into lanes, as far as the queue still holds the jobs
-- that were read: another process may sort it too, and Ruby take from it.
--
-- KEYS  1 queue   2 lanes   3 clock, see take   then turns and, of each, its lists one behind the other
-- ARGV  how many sets of lanes that share their limits, then for each: key of the turns, member of lanes, the first list, how
--       many, and how many bytes of their names stand before the lane's own: its name among the turns
--       then the lane of each job as two bytes, the higher one first, and the payloads
-- Returns how many jobs were moved.
--
-- Jobs with a priority go in front of those of their lane with a lower one.
--
-- All keys are first read as their type, lists only where there are some. Redis allows an LTRIM as the first write when out of
-- memory, and then all others.
--@ahead
local call, byte, lanes, sets, at = redis.call, string.byte, {}, {}, 1
call('SCARD', KEYS[2])
local ahead, last = string.match(call('GET', KEYS[3]) or '', '^(%d+) (%d+)$')
for i = 1, tonumber(ARGV[1]) do
  local set = {turns = KEYS[tonumber(ARGV[at + 1])], member = ARGV[at + 2], new = {}}
  local first, own = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 5]) + 1
  local past = first + ARGV[at + 4]
  call('ZCARD', set.turns)
  for from = first, past - 1, 100 do
    local to = math.min(from + 99, past - 1)
    if call('EXISTS', unpack(KEYS, from, to)) > 0 then
      for n = from, to do call('LLEN', KEYS[n]) end
    end
  end
  for n = first, past - 1 do lanes[#lanes + 1] = {list = KEYS[n], set = set, own = own} end
  sets[i], at = set, at + 5
end
at = at + 1
local head, moved, places = call('LRANGE', KEYS[1], 0, #ARGV - at - 1), 0, ARGV[at]
while head[moved + 1] and head[moved + 1] == ARGV[at + moved + 1] do
  local job, high, low = head[moved + 1], byte(places, 2 * moved + 1, 2 * moved + 2)
  moved = moved + 1
  local lane = lanes[256 * high + low]
  if byte(job, 3) == 112 and priority(job) > 0 then -- 112 is p
    lane.first = lane.first or {}
    lane.first[#lane.first + 1] = job
  elseif lane.jobs then lane.jobs[#lane.jobs + 1] = job
  elseif lane.job then lane.jobs = {lane.job, job}
  else lane.job = job end
end
if moved == 0 then return 0 end
call('LTRIM', KEYS[1], moved, -1)
local time = call('TIME')
local now = math.max(time[1] * 1000000 + time[2] + (ahead or 0), tonumber(last or 0))
for i, lane in ipairs(lanes) do
  if lane.job or lane.first then
    local new = lane.set.new
    new[#new + 1], new[#new + 2] = string.format('%.0f', now + i), string.sub(lane.list, lane.own)
    if lane.jobs then call('RPUSH', lane.list, unpack(lane.jobs))
    elseif lane.job then call('RPUSH', lane.list, lane.job) end
    if lane.first then for _, job in ipairs(lane.first) do insert(lane.list, job, priority(job)) end end
  end
end
for _, set in ipairs(sets) do
  if #set.new > 0 then
    call('SADD', KEYS[2], set.member)
    call('ZADD', set.turns, 'NX', unpack(set.new))
  end
end
return moved
