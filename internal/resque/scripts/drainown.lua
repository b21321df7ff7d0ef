-- Moves listed jobs of one of goworker's own queues to the tail of the queue of the same name that Ruby reads, as JSON.
--
-- KEYS  1 processes   2 the queue   3 queues   4 Ruby's list of the queue
-- ARGV  the queue's name, then for each job: its bytes, its JSON. They are in the order of the queue.
-- Returns how many were moved, or -1 if a process has a lease.
--
-- Atomic: the call. A job that is not in the queue any more is not pushed, so the call may be repeated. Redis allows an LTRIM
-- as the first write when out of memory, and then all that follow.
if #redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf', 'LIMIT', 0, 1) > 0 then return -1 end
redis.call('SCARD', KEYS[3])
redis.call('LLEN', KEYS[4])
redis.call('LTRIM', KEYS[2], 0, -1)
local moved = 0
for i = 2, #ARGV, 2 do
  if redis.call('LREM', KEYS[2], 1, ARGV[i]) == 1 then
    redis.call('RPUSH', KEYS[4], ARGV[i + 1])
    moved = moved + 1
  end
end
if moved > 0 then redis.call('SADD', KEYS[3], ARGV[1]) end
return moved
