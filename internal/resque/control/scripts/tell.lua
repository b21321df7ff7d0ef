-- Sets a field of the notice, or removes it.
--
-- KEYS  1 notice
-- ARGV  1 channel   2 how long the notice stays in ms   3 field   4 value; '': it is removed   5 how many fields at most
--       6 '1': processes are to hear of it at once
-- Returns how many clients heard of it; -1: Redis refuses the channel; -2: the notice is full and nothing was written.
--
-- Atomic: the call. Redis allows the HDEL as the first write when out of memory, and then the HSET.
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then return -2 end
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[1], ARGV[3])
else
  redis.call('HDEL', KEYS[1], '')
  redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if ARGV[6] ~= '1' then return 0 end
local heard = redis.pcall('PUBLISH', ARGV[1], ARGV[3])
return type(heard) == 'number' and heard or -1
