-- Takes the schedulers' locks, or holds them for longer: all of them or none.
--
-- KEYS  locks   ARGV  holder, seconds
-- Returns {1} or {0, who holds one of them}.
--
-- The EXPIRE is a first write that Redis allows when out of memory, and with it the SET:
-- jobs that are due are moved there too.
for _, key in ipairs(KEYS) do
  local holder = redis.call('GET', key)
  if holder and holder ~= ARGV[1] then return {0, holder} end
end
for _, key in ipairs(KEYS) do
  redis.call('EXPIRE', key, ARGV[2])
  redis.call('SET', key, ARGV[1], 'EX', ARGV[2])
end
return {1}
