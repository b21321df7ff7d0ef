-- Writes into a process's in-flight record what it has lost. The last call for a record also
-- writes which jobs are with workers, and the mark.
--
-- KEYS  1 in-flight record   2 process record
-- ARGV  epoch, '1' in the last call, handed, then fields and values of the in-flight record
-- Returns 'ok', or 'stale' or 'gone' if the process record has another epoch or none: the
-- request is late, and the record may be right by now.
--
-- Redis allows an HDEL as the first write when out of memory, and then the others.
redis.call('HLEN', KEYS[1])
local epoch = redis.call('HGET', KEYS[2], 'epoch')
if epoch ~= ARGV[1] then return epoch and 'stale' or 'gone' end
redis.call('HDEL', KEYS[1], '')
if ARGV[2] == '1' then redis.call('HSET', KEYS[2], 'handed', ARGV[3]) end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
return 'ok'
