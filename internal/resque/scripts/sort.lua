-- Moves jobs from the head of a queue into lanes, as far as the queue still holds the jobs
-- that were read: another process may sort it too, and Ruby take from it.
--
-- KEYS  1 queue   2 lanes   3 clock, see take   then lists and turns
-- ARGV  how many lanes, then for each: list key, key of the turns, its name there, member of lanes
--       then for each job: lane, payload
-- Returns how many jobs were moved.
--
-- Jobs with a priority go in front of those of their lane with a lower one.
--
-- All keys are first read as their type. Redis allows an LPOP as the first write when out of
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
local head, moved = redis.call('LRANGE', KEYS[1], 0, (#ARGV - at - 1) / 2), 0
while head[moved + 1] and head[moved + 1] == ARGV[at + 1] do
  local lane = lanes[tonumber(ARGV[at])]
  moved, at = moved + 1, at + 2
  local jobs = priority(head[moved]) > 0 and lane.first or lane.jobs
  jobs[#jobs + 1] = head[moved]
end
if moved == 0 then return 0 end
redis.call('LPOP', KEYS[1], moved)
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
