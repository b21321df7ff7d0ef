-- Puts the job of one failure record back into its queue and marks the record as
-- retried, as one. The record is told by its bytes: where it was read something
-- else may stand by now. Like a push it is refused, whole, when out of memory.
--
-- KEYS  1 failure list   2 queues   3 queue
-- ARGV  index where it was read, the record, the record with retried_at, queue name, payload
-- Returns 1, or 0 where the record is not in the list any more.
local index = ARGV[1]
if redis.call('LINDEX', KEYS[1], index) ~= ARGV[2] then
  index = redis.call('LPOS', KEYS[1], ARGV[2])
  if not index then return 0 end
end
redis.call('SCARD', KEYS[2])
redis.call('LLEN', KEYS[3])
redis.call('SADD', KEYS[2], ARGV[4])
redis.call('RPUSH', KEYS[3], ARGV[5])
redis.call('LSET', KEYS[1], index, ARGV[3])
return 1
