-- Enqueues a job and gives it a lock, in one step, unless another job holds the lock. Like a
-- push it is refused, whole, when out of memory.
--
-- KEYS  1 lock   2 queues   3 queue, or the schedule
-- ARGV  id, value of the lock before the times, its value behind them, its TTL in ms,
--       due time in ms or '', queue or '', payload or member of the schedule
-- Returns {now in ms}, or if the lock is held {now in ms, id, value of the lock, …}.
local lock, id, due = KEYS[1], ARGV[1], ARGV[5]
local reply = redis.call('TIME')
local now = string.format('%.0f', reply[1] * 1000 + math.floor(reply[2] / 1000))
local held = redis.call('HGETALL', lock)
if #held > 0 then return {now, unpack(held)} end
redis.call(due == '' and 'LLEN' or 'ZCARD', KEYS[3])
redis.call('SCARD', KEYS[2])
redis.call('HSET', lock, id, ARGV[2] .. ' ' .. now .. ' ' .. now .. ' ' .. ARGV[3])
local bound = redis.pcall('PEXPIRE', lock, ARGV[4])
if type(bound) == 'table' then
  redis.call('HDEL', lock, id)
  return bound
end
if due == '' then
  redis.call('SADD', KEYS[2], ARGV[6])
  redis.call('RPUSH', KEYS[3], ARGV[7])
else
  redis.call('ZADD', KEYS[3], due, ARGV[7])
end
return {now}
