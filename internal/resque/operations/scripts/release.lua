-- Ends the running of an operation.
--
-- KEYS  1 record   2 operations that run
-- ARGV  1 id   2 runner, or '' for an operator who stops it   3 the state it is in from now on, or '' for the same   4 why
-- Returns 'ok', 'none': there is no record, 'lost': it is not of this runner, or 'over', its state: it has ended.
--
-- Atomic: the call. A ZREM is allowed as the first write when Redis is out of memory, and then all that follow.
local has = redis.call('HMGET', KEYS[1], 'state', 'runner')
redis.call('ZCARD', KEYS[2])
if not has[1] then return {'none'} end
if has[1] == 'done' or has[1] == 'undone' then return {'over', has[1]} end
if ARGV[2] ~= '' and has[2] ~= ARGV[2] then return {'lost'} end
if ARGV[2] ~= '' and has[1] == 'stopped' then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return {'over', has[1]}
end
local time = redis.call('TIME')
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[1], 'changed', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'state', ARGV[3]) end
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'why', ARGV[4]) end
return {'ok'}
