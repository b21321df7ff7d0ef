-- Removes keys that hold no job.
--
-- KEYS  1 processes   then the keys
-- Returns how many there were, or -1 if a process has a lease.
if #redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf', 'LIMIT', 0, 1) > 0 then return -1 end
return redis.call('DEL', unpack(KEYS, 2))
