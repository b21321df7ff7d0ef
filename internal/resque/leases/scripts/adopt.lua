-- Gives a lease to jobs that clients hold and that have none, because go:leases was removed: without one no job ends.
--
-- KEYS  1 leases   2 leased
-- ARGV  how long the leases are, in ms   then places (≤ 1000)
-- Returns how many jobs got one. Their ends are taken to have effects.
--
-- Atomic: the call. Redis does it when out of memory, too.
local time = redis.call('TIME')
local till = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]) .. '.5'
redis.call('HLEN', KEYS[2])
redis.call('ZREM', KEYS[1], '')
local adopted = 0
for at = 2, #ARGV do
  if redis.call('HEXISTS', KEYS[2], ARGV[at]) == 1 then adopted = adopted + redis.call('ZADD', KEYS[1], 'NX', till, ARGV[at]) end
end
return adopted
