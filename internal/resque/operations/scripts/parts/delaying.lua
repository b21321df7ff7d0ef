-- Puts jobs from a list in the bin back into the schedules of delayed jobs.
-- KEYS  1 list in the bin   2 our schedule   3 delayed_queue_schedule   then delayed:<second> and timestamps:<item>
-- ARGV  1 name in the bin   then for each job: how it lies in the bin, the time (ms; for resque-scheduler the second), member or
--       item, numbers of delayed:<second> and timestamps:<item>, or 0 and 0 for our schedule
-- Returns jobs, {name in the bin, minus those that left it}. A job of which our schedule has an equal one leaves the bin only.
-- If the bin has changed, the jobs behind stay in it.
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', KEYS[3])
local there, left, back = redis.call('LRANGE', KEYS[1], 0, (#ARGV - 1) / 5 - 1), 0, 0
for key = 4, #KEYS, 2 do
  redis.call('LLEN', KEYS[key])
  redis.call('SCARD', KEYS[key + 1])
end
redis.call('LTRIM', KEYS[1], 0, -1) -- Redis allows it when out of memory, and then all that follow
for at = 2, #ARGV, 5 do
  local lies, time, text, bucket, stamps = unpack(ARGV, at, at + 4)
  if there[left + 1] ~= lies then break end
  left = left + 1
  if bucket == '0' then back = back + redis.call('ZADD', KEYS[2], 'NX', time, text)
  else
    redis.call('RPUSH', KEYS[tonumber(bucket)], text)
    redis.call('SADD', KEYS[tonumber(stamps)], 'delayed:' .. time)
    redis.call('ZADD', KEYS[3], time, time)
    back = back + 1
  end
end
redis.call('LTRIM', KEYS[1], left, -1)
return {back, {ARGV[1], -left}}
