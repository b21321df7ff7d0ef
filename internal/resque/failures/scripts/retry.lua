-- Puts the job of one failure record back into its queue and marks the record as
-- retried, in one step. The record is known by its bytes, because another element may be at its
-- place by now. Like a push it is refused, whole, when out of memory.
--
-- KEYS  1 failure list   2 queues   3 queue
-- ARGV  index where it was read, the record, the record with retried_at, queue name, payload,
--       'seek' to search the whole list for a record that is not near there, 'head' for that end
-- Returns 1, or 0 if the record is not in the list any more, or was not searched for.
local list, index, record = KEYS[1], tonumber(ARGV[1]), ARGV[2]
if redis.call('LINDEX', list, index) ~= record then
  local from = math.max(0, index - 200) -- each removal moves the records behind it
  local near = redis.call('LRANGE', list, from, index)
  index = nil
  for i = #near, 1, -1 do
    if near[i] == record then index = from + i - 1 break end
  end
  index = index or ARGV[6] == 'seek' and redis.call('LPOS', list, record)
  if not index then return 0 end
end
redis.call('SCARD', KEYS[2])
redis.call('LLEN', KEYS[3])
redis.call('SADD', KEYS[2], ARGV[4])
redis.call(ARGV[7] == 'head' and 'LPUSH' or 'RPUSH', KEYS[3], ARGV[5])
redis.call('LSET', list, index, ARGV[3])
return 1
