-- Puts a process into the fleet, or back into it after Redis lost its data: its
-- record and its lease, in one step.
--
-- KEYS  1 processes   2 process record   3 workers:heartbeat   4 tombstone   5 in-flight record
-- ARGV  process, lease in ms, mark of the in-flight record or '', first worker id or '', heartbeat,
--       then fields and values of the process record
-- Returns 'ok', 'taken' where another process has the first worker id, or 'reaped'.
--
-- Redis allows an HDEL as the first write when out of memory, and then the others. Such a Redis
-- needs a process that empties its queues.
if redis.call('EXISTS', KEYS[4]) == 1 then return 'reaped' end
redis.call('ZCARD', KEYS[1])
redis.call('HLEN', KEYS[3])
redis.call('HLEN', KEYS[5])
redis.call('HDEL', KEYS[2], '')
if ARGV[4] ~= '' then
  if redis.call('HSETNX', KEYS[3], ARGV[4], ARGV[5]) == 0 then return 'taken' end
end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[5], 'entered', ARGV[3]) end
redis.call('HSET', KEYS[2], unpack(ARGV, 6))
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]), ARGV[1])
return 'ok'
