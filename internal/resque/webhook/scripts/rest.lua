-- Has all deliverers of a webhook send nothing to its receiver for a while.
--
-- KEYS  1 state   ARGV  1 for how many ms   2 the receiver: hexadecimal digits
--
-- Atomic: the call. Redis allows the HDEL as the first write when out of memory, and then the HSET.
local time = redis.call('TIME')
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'rest', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]) .. ' ' .. ARGV[2])
