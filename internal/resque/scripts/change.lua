-- Changes a probe key, so that Redis notifies the connections that track it.
--
-- KEYS  1 probe, which expires a second later
--
-- Redis allows a DEL as the first write when out of memory, and then the SET.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], '1', 'EX', 1)
