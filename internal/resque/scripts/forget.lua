-- Removes a field of a hash, provided that its value is still the one that was read.
--
-- KEYS  1 hash   ARGV  field, value   Returns 1, or 0 where the field has another value or is gone.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
