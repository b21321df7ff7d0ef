-- Changes a key of nobody's, so that whoever watches it is told.
--
-- KEYS  1 probe, which is gone a second later
--
-- The DEL is a first write that Redis allows when out of memory, and with it the SET.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], '1', 'EX', 1)
