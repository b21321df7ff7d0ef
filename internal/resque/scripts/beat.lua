-- Sends heartbeats of a process's workers, and registers those that another program has unregistered. Ruby
-- removes workers that send none for five minutes, so this must work when Redis is out of memory: Redis
-- allows an HDEL as the first write there, and then the others. The heartbeats go first, because
-- to Ruby a worker without one counts as old. A wrong type of one key does not keep the other
-- from being written.
--
-- A process that was found dead, or has no record, registers nothing: no reaper would look for these ids.
--
-- KEYS  1 workers:heartbeat   2 workers   3 process record   4 tombstone
--       from 5: worker:<id>:started of each id, where ARGV[1] is not ''
-- ARGV  the start of the workers or '', then worker id, time, worker id, time, …
-- Returns how many were not registered, or -1 where the process was found dead, -2 where it has no record.
if redis.call('EXISTS', KEYS[4]) == 1 then return -1 end
if redis.call('EXISTS', KEYS[3]) == 0 then return -2 end
local ids = {}
for i = 2, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
redis.pcall('HDEL', KEYS[1], '')
local beats = redis.pcall('HSET', KEYS[1], unpack(ARGV, 2))
local added = redis.pcall('SADD', KEYS[2], unpack(ids))
for i = 5, #KEYS do redis.pcall('SET', KEYS[i], ARGV[1]) end
return type(beats) == 'table' and beats or added
