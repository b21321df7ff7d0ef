-- Moves jobs that lie where Ruby's workers read into the queue of goworker's own whose name they have.
--
-- KEYS  1 Ruby's list of the queue   2 queues   3 the queue   4 the names of goworker's own queues
-- ARGV  the queue's name, most jobs
-- Returns how many jobs were moved.
--
-- Atomic: the call. When Ruby's list is empty, queues loses the name. Redis allows an LPOP as the first write when out of
-- memory, and then all that follow.
redis.call('SCARD', KEYS[2])
redis.call('LLEN', KEYS[3])
redis.call('SCARD', KEYS[4])
local jobs = redis.call('LPOP', KEYS[1], ARGV[2])
if not jobs then return 0 end
redis.call('RPUSH', KEYS[3], unpack(jobs))
redis.call('SADD', KEYS[4], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
return #jobs
