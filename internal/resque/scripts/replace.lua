-- Puts a job in the place of the one that holds its lock, if the holder still waits: lock
-- and both jobs in one step. In the same queue the job takes the holder's position.
--
-- KEYS  1 lock   2 queues   3 schedule   4 queue of the holder   5 queue, or the schedule
-- ARGV  1 to 7 as in unique.lua, then id of the holder, its value of the lock, how much
--       of that precedes the member of the schedule, how much of the member the payload
-- Returns {now in ms}; 'changed' if the lock has another value; 'gone' if the
-- holder does not wait.
local lock, id, due, holder, said = KEYS[1], ARGV[1], ARGV[5], ARGV[8], ARGV[9]
local member = string.sub(said, ARGV[10] + 1)
local payload = string.sub(member, ARGV[11] + 1)
if redis.call('HGET', lock, holder) ~= said then return 'changed' end
redis.call(due == '' and 'LLEN' or 'ZCARD', KEYS[5])
redis.call('SCARD', KEYS[2])
local later = redis.call('ZSCORE', KEYS[3], member)
local at = not later and redis.call('LPOS', KEYS[4], payload)
if not later and not at then return 'gone' end

local now = redis.call('TIME')
now = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
redis.call('PEXPIRE', lock, ARGV[4]) -- Redis allows it as the first write when out of memory, and then the rest
redis.call('HSET', lock, id, ARGV[2] .. ' ' .. now .. ' ' .. now .. ' ' .. ARGV[3])
if holder ~= id then redis.call('HDEL', lock, holder) end
if at and KEYS[4] == KEYS[5] then
  redis.call('LSET', KEYS[4], at, ARGV[7])
  return {now}
end
if later then redis.call('ZREM', KEYS[3], member) else redis.call('LREM', KEYS[4], 1, payload) end
if due == '' then
  redis.call('SADD', KEYS[2], ARGV[6])
  redis.call('RPUSH', KEYS[5], ARGV[7])
else
  redis.call('ZADD', KEYS[5], due, ARGV[7])
end
return {now}
