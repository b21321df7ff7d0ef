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
local call, byte, sets, at = redis.call, string.byte, {}, 1
local lists, setOf, jobs, first = {}, {}, {}, {} -- of each lane: its key, its set, and what it gets: a job or several, and those with a priority
call('SCARD', KEYS[2])
local ahead, last = string.match(call('GET', KEYS[3]) or '', '^(%d+) (%d+)$')
for i = 1, tonumber(ARGV[1]) do
  local set = {turns = KEYS[tonumber(ARGV[at + 1])], member = ARGV[at + 2], own = tonumber(ARGV[at + 5]) + 1, new = {}}
  local from, past = tonumber(ARGV[at + 3]), ARGV[at + 3] + ARGV[at + 4]
  call('ZCARD', set.turns)
  for n = from, past - 1 do
    lists[#lists + 1] = KEYS[n]
    setOf[#lists] = set
  end
  for from = from, past - 1, 100 do
    local to = math.min(from + 99, past - 1)
    if call('EXISTS', unpack(KEYS, from, to)) > 0 then
      for n = from, to do call('LLEN', KEYS[n]) end
    end
  end
  sets[i], at = set, at + 5
end
at = at + 1
local head, moved, places = call('LRANGE', KEYS[1], 0, #ARGV - at - 1), 0, ARGV[at]
for i = 1, #head do
  local job, high, low = head[i], byte(places, 2 * i - 1, 2 * i)
  if job ~= ARGV[at + i] then break end
  moved = i
  local lane = 256 * high + low
  local has = jobs[lane]
  if byte(job, 3) == 112 and priority(job) > 0 then -- 112 is p
    first[lane] = first[lane] or {}
    first[lane][#first[lane] + 1] = job
  elseif not has then jobs[lane] = job
  elseif type(has) == 'table' then has[#has + 1] = job
  else jobs[lane] = {has, job} end
end
if moved == 0 then return 0 end
call('LTRIM', KEYS[1], moved, -1)
local time = call('TIME')
local now = math.max(time[1] * 1000000 + time[2] + (ahead or 0), tonumber(last or 0))
local digits, ten, tens = {[0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}
for lane = 1, #lists do
  local list, has, before = lists[lane], jobs[lane], first[lane]
  if has or before then
    local set, unit = setOf[lane], (now + lane) % 10
    if ten ~= now + lane - unit then -- of ten turns one is written: Redis is slow at that
      ten = now + lane - unit
      tens = string.format('%.0f', ten / 10)
    end
    set.new[#set.new + 1] = tens .. digits[unit]
    set.new[#set.new + 1] = string.sub(list, set.own)
    if type(has) == 'table' then call('RPUSH', list, unpack(has)) elseif has then call('RPUSH', list, has) end
    if before then for _, job in ipairs(before) do insert(list, job, priority(job)) end end
  end
end
for _, set in ipairs(sets) do
  if #set.new > 0 then
    call('SADD', KEYS[2], set.member)
    call('ZADD', set.turns, 'NX', unpack(set.new))
  end
end
return moved
