-- Makes a program the runner of an operation, unless another one is, or as many operations run as may.
--
-- KEYS  1 record   2 operations that run
-- ARGV  1 id   2 runner   3 lease in ms   4 how many may run   5 how long the record stays in ms   6 'undo' to take back what it did, or 'run'
-- Returns 'ok'; or, and then nothing was written, 'none': there is no record; 'over', its state; 'busy': another program runs it;
--       'full', the ids of those that run.
--
-- Atomic: the call. Redis allows a ZREMRANGEBYSCORE as the first write when out of memory, and then all that follow.
local has = redis.call('HMGET', KEYS[1], 'state', 'undoing')
redis.call('ZCARD', KEYS[2])
if not has[1] then return {'none'} end
if has[1] == 'undone' or has[1] == 'done' and ARGV[6] == 'run' then return {'over', has[1]} end
if has[2] and ARGV[6] == 'run' then return {'over', 'undoing'} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease = redis.call('ZSCORE', KEYS[2], ARGV[1])
if lease and lease + 0 >= now then return {'busy'} end
local others = redis.call('ZRANGEBYSCORE', KEYS[2], string.format('%.0f', now), '+inf')
if #others >= ARGV[4] + 0 then return {'full', unpack(others)} end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('(%.0f', now))
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('HSET', KEYS[1], 'state', 'running', 'runner', ARGV[2], 'changed', string.format('%.0f', now))
redis.call('HDEL', KEYS[1], 'why')
if ARGV[6] == 'undo' and not has[2] then redis.call('HSET', KEYS[1], 'undoing', '1', 'cursor', '') end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return {'ok'}
