-- Puts the job of one failure record back into its queue and marks the record as
-- retried, in one step. The record is known by its bytes, because another element may be at its
-- place by now. Like a push it is refused, whole, when out of memory.
--
-- KEYS  1 failure list   2 queues   3 queue   of a job with a document: 4 document   5 progress   6 log lines
-- ARGV  index where it was read, the record, the record with retried_at, queue name, payload, the class
--       and how long the document stays in ms,
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
  index = index or ARGV[8] == 'seek' and redis.call('LPOS', list, record)
  if not index then return 0 end
end
redis.call('SCARD', KEYS[2])
redis.call('LLEN', KEYS[3])
redis.call('SADD', KEYS[2], ARGV[4])
redis.call(ARGV[9] == 'head' and 'LPUSH' or 'RPUSH', KEYS[3], ARGV[5])
redis.call('LSET', list, index, ARGV[3])
if KEYS[4] and redis.pcall('HGET', KEYS[4], 'state') == 'failed' then
  redis.call('HSET', KEYS[4], 'state', 'pending', 'queue', ARGV[4], 'class', ARGV[6])
  redis.call('HDEL', KEYS[4], 'ended', 'due')
  for key = 4, 6 do redis.call('PEXPIRE', KEYS[key], ARGV[7]) end
end
return 1
