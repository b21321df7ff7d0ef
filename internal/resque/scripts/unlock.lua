-- Gives a lock back, provided it is still ours.
--
-- KEYS  1 lock   ARGV  holder   Returns 1, or 0 where somebody else holds it.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
