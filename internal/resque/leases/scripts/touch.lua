-- Gives a lease another end.
--
-- KEYS  1 leases
-- ARGV  place   the lease that the job must have, or ''   ttr in ms
-- Returns the lease then, or nothing if the job has not this one.
--
-- Atomic: the call. Redis does it when out of memory, too.
local was = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not was or ARGV[2] ~= '' and ARGV[2] ~= was then return end
local time = redis.call('TIME')
local till = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3])
if string.sub(was, -2) == '.5' then till = till .. '.5' end
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], till, ARGV[1])
return till
