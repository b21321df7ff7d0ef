-- Moves jobs from the head of a queue into lanes, as far as the queue still holds the jobs
-- that were read: another process may sort it too, and Ruby take from it.
--
-- KEYS  1 queue   2 lanes   3 clock, see take   then lists and turns
-- ARGV  how many lanes, then for each: list key, key of the turns, its name there, member of lanes
--       then the lane of each job as two bytes, the higher one first, and the payloads
-- Returns how many jobs were moved.
--
-- Jobs with a priority go in front of those of their lane with a lower one.
--
-- All keys are first read as their type. Redis allows an LTRIM as the first write when out of
-- memory, and then all others.
--@ahead
local lanes, at = {}, 2
redis.call('SCARD', KEYS[2])
local ahead, last = string.match(redis.call('GET', KEYS[3]) or '', '^(%d+) (%d+)$')
for i = 1, tonumber(ARGV[1]) do
  local list, turns = KEYS[tonumber(ARGV[at])], KEYS[tonumber(ARGV[at + 1])]
  redis.call('LLEN', list)
  redis.call('ZCARD', turns)
  lanes[i] = {list = list, turns = turns, name = ARGV[at + 2], member = ARGV[at + 3], jobs = {}, first = {}}
  at = at + 4
end
local head, moved, byte, places = redis.call('LRANGE', KEYS[1], 0, #ARGV - at - 1), 0, string.byte, ARGV[at]
while head[moved + 1] and head[moved + 1] == ARGV[at + moved + 1] do
  local job, high, low = head[moved + 1], byte(places, 2 * moved + 1, 2 * moved + 2)
  moved = moved + 1
  local lane = lanes[256 * high + low]
  local jobs = byte(job, 3) == 112 and priority(job) > 0 and lane.first or lane.jobs -- 112 is p
  jobs[#jobs + 1] = job
end
if moved == 0 then return 0 end
redis.call('LTRIM', KEYS[1], moved, -1)
local time = redis.call('TIME')
local now = math.max(time[1] * 1000000 + time[2] + (ahead or 0), tonumber(last or 0))
for i, lane in ipairs(lanes) do
  if #lane.jobs + #lane.first > 0 then
    redis.call('SADD', KEYS[2], lane.member)
    redis.call('ZADD', lane.turns, 'NX', string.format('%.0f', now + i), lane.name)
    if #lane.jobs > 0 then redis.call('RPUSH', lane.list, unpack(lane.jobs)) end
    for _, job in ipairs(lane.first) do insert(lane.list, job, priority(job)) end
  end
end
return moved
