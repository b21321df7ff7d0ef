-- Changes probe keys, so that Redis notifies the connections that track them. None of them stays.
--
-- KEYS  probes
--
-- Redis allows a DEL as the first write when out of memory, and then the SET.
for _, probe in ipairs(KEYS) do
  redis.call('DEL', probe)
  redis.call('SET', probe, '1')
  redis.call('DEL', probe)
end
