-- Removes one dead worker of another program, as Ruby's pruning does, provided that since
-- the observation it has neither sent a heartbeat nor changed its job.
--
-- KEYS  1 workers:heartbeat   2 worker:<id>   3 workers   4 worker:<id>:started
--       5 stat:processed:<id>   6 stat:failed:<id>   7 failure list   8 failed_queues
-- ARGV  worker id, heartbeat seen or '', job seen or '', failure record or '', member of failed_queues or ''
-- Returns 1, or 0 where the worker has changed.
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
if (redis.call('GET', KEYS[2]) or '') ~= ARGV[3] then return 0 end
redis.call('SCARD', KEYS[3])
redis.call('LLEN', KEYS[7])
if ARGV[5] ~= '' then redis.call('SCARD', KEYS[8]) end
redis.call('DEL', KEYS[4])
if ARGV[4] ~= '' then redis.call('RPUSH', KEYS[7], ARGV[4]) end
if ARGV[5] ~= '' then redis.call('SADD', KEYS[8], ARGV[5]) end
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('DEL', KEYS[2], KEYS[5], KEYS[6])
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
