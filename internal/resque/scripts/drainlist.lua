-- Moves listed jobs from a lane to the head of their queue, or from kept payloads to its tail.
--
-- KEYS  1 processes   2 list   3 queues   4 queue   for a lane: 5 lanes   6 turns
-- ARGV  'head' or 'tail', queue, member of lanes, the lane's name among the turns, then payloads.
--       For the head they begin with the last one of the list.
-- Returns how many were moved, or -1 if a process has a lease.
--
-- Atomic: the call. A payload that is not in the list any more is not pushed, so the call may be
-- repeated. Redis allows an LTRIM as the first write when out of memory, and then all that follow.
if #redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf', 'LIMIT', 0, 1) > 0 then return -1 end
redis.call('SCARD', KEYS[3])
redis.call('LLEN', KEYS[4])
if KEYS[5] then
  redis.call('SCARD', KEYS[5])
  redis.call('ZCARD', KEYS[6])
end
redis.call('LTRIM', KEYS[2], 0, -1)
local from, push = 1, 'RPUSH'
if ARGV[1] == 'head' then from, push = -1, 'LPUSH' end
local moved = 0
for i = 5, #ARGV do
  if redis.call('LREM', KEYS[2], from, ARGV[i]) == 1 then
    redis.call(push, KEYS[4], ARGV[i])
    moved = moved + 1
  end
end
if moved > 0 then redis.call('SADD', KEYS[3], ARGV[2]) end
if KEYS[5] and redis.call('LLEN', KEYS[2]) == 0 then
  redis.call('ZREM', KEYS[6], ARGV[4])
  if redis.call('ZCARD', KEYS[6]) == 0 then redis.call('SREM', KEYS[5], ARGV[3]) end
end
return moved
