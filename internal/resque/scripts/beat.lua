-- Sends heartbeats. Ruby removes workers that send none for five minutes, so it must work
-- when Redis is out of memory: the HDEL is a first write that is allowed there, and with
-- it the HSET.
--
-- KEYS  1 workers:heartbeat   ARGV  worker id, time, worker id, time, …
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], unpack(ARGV))
