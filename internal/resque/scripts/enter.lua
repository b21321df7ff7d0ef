-- Puts a process into the fleet, or back into it after Redis lost its data: its
-- record and its lease, as one.
--
-- KEYS  1 processes   2 process record   3 workers:heartbeat   4 tombstone   5 in-flight record
-- ARGV  process, lease in ms, mark of the in-flight record or '', first worker id or '', heartbeat,
--       then fields and values of the process record
-- The HDEL is a first write that Redis allows when out of memory, and with it the others:
-- who works off the queues is what such a Redis needs.
-- Returns 'ok', 'taken' where somebody has the first worker id, or 'reaped'.
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
