-- Takes the schedulers' locks, or extends them: all of them or none.
--
-- KEYS  locks   ARGV  holder, seconds
-- Returns {1} or {0, holder of one of them}.
--
-- Redis allows an EXPIRE as the first write when out of memory, and then the SET: due jobs
-- are moved there too.
for _, key in ipairs(KEYS) do
  local holder = redis.call('GET', key)
  if holder and holder ~= ARGV[1] then return {0, holder} end
end
for _, key in ipairs(KEYS) do
  redis.call('EXPIRE', key, ARGV[2])
  redis.call('SET', key, ARGV[1], 'EX', ARGV[2])
end
return {1}
