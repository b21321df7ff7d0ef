-- Records an operation.
--
-- KEYS  1 record   2 operations
-- ARGV  1 id   2 how long the record stays in ms   3 how many operations are listed at most   then fields and values
-- Returns 1, or 0 if there is a record of this id.
--
-- Atomic: the call. Redis allows the empty ZREMRANGEBYRANK as the first write when out of memory, and then the others: an
-- operation that makes room can begin.
redis.call('ZCARD', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYRANK', KEYS[2], 1, 0)
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
now = string.format('%.0f', now)
redis.call('HSET', KEYS[1], 'begun', now, 'changed', now, 'state', 'ready', 'step', '0', 'cursor', '')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now - ARGV[2]))
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, string.format('%.0f', -1 - ARGV[3]))
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
