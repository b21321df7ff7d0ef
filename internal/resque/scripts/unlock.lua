-- Releases a lock, provided the holder still has it.
--
-- KEYS  1 lock   ARGV  holder   Returns 1, or 0 where another holder has it.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
