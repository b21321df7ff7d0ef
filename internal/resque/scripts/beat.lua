-- Sends heartbeats, and registers workers that another program has unregistered. Ruby removes
-- workers that send none for five minutes, so this must work when Redis is out of memory: Redis
-- allows an HDEL as the first write there, and then the others. The heartbeats go first, because
-- to Ruby a worker without one counts as old. A wrong type of one key does not keep the other
-- from being written.
--
-- KEYS  1 workers:heartbeat   2 workers   ARGV  worker id, time, worker id, time, …
-- Returns how many were not registered.
local ids = {}
for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
redis.pcall('HDEL', KEYS[1], '')
local beats = redis.pcall('HSET', KEYS[1], unpack(ARGV))
local added = redis.pcall('SADD', KEYS[2], unpack(ids))
return type(beats) == 'table' and beats or added
