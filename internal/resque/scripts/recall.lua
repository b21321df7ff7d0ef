-- Reads a value of a running job that an earlier run may have left, and begins the TTL of all of them again.
--
-- KEYS  1 in-flight record   2 cursor of the job
-- ARGV  1 ticket   2 field   3 TTL in ms
-- Returns the value or nil, and how many fields the cursor has; 0 if the process no longer holds the job.
--
-- Atomic: the call. It changes the TTL only.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local value = redis.pcall('HGET', KEYS[2], ARGV[2])
if type(value) == 'table' then return value end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {value, redis.call('HLEN', KEYS[2])}
