-- Puts jobs at the tail of a queue, and the queue into the set of queues: both or
-- neither. Under MULTI a wrong-type set of queues would not keep the jobs out.
--
-- KEYS  1 queues   2 queue
-- ARGV  queue name, then payloads
-- Returns the length of the queue.
redis.call('SCARD', KEYS[1])
redis.call('LLEN', KEYS[2])
redis.call('SADD', KEYS[1], ARGV[1])
local length
for at = 2, #ARGV, 1000 do
  length = redis.call('RPUSH', KEYS[2], unpack(ARGV, at, math.min(at + 999, #ARGV)))
end
return length
