-- Moves a payload that is no job from its queue to a list of failures, in one step. The first of equal ones is moved.
--
-- KEYS  1 queue   2 list of failures   3 names of these lists
-- ARGV  payload, its failure, the list's name among the names or ''
-- Returns 1, or 0 where the queue does not have the payload any more.
if not redis.call('LPOS', KEYS[1], ARGV[1]) then return 0 end
redis.call('LLEN', KEYS[2])
if ARGV[3] ~= '' then redis.call('SADD', KEYS[3], ARGV[3]) end
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('LREM', KEYS[1], 1, ARGV[1])
return 1
