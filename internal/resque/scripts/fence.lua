-- Declares a process dead, provided its lease is still the one that was observed.
-- From then on the process can neither renew nor reserve. It can still commit a job
-- whose ticket is in its record. The lease becomes a negative number: since when it is dead.
--
-- KEYS  1 processes   2 tombstone   3 process record   4 in-flight record
-- ARGV  process, lease observed or '', seconds the tombstone stays
-- Returns 1, or 0 where the lease has changed, or there was none and the records are gone: another reaper took them.
local lease = redis.call('ZSCORE', KEYS[1], ARGV[1]) or ''
if lease ~= ARGV[2] or lease == '' and redis.call('EXISTS', KEYS[3], KEYS[4]) == 0 then return 0 end
redis.call('HDEL', KEYS[3], '')
redis.call('SET', KEYS[2], '1', 'EX', ARGV[3])
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], string.format('%.0f', -(time[1] * 1000 + math.floor(time[2] / 1000))), ARGV[1])
return 1
