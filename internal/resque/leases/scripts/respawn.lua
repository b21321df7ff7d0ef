-- Puts the jobs of the oldest failures of a queue to its tail and removes the records.
--
-- KEYS  1 failure list   2 queue   3 set that has its name   4 returned
-- ARGV  name of the queue   how many   SHA-1 of each record   place of each job or ''   payload of each job (≤ 1000)
-- Returns how many, or 0 if the list does not begin with these records any more.
--
-- Atomic: the call. Like a push it is refused, whole, when out of memory.
local n = tonumber(ARGV[2])
local records = redis.call('LRANGE', KEYS[1], 0, n - 1)
for i = 1, n do
  if not records[i] or redis.sha1hex(records[i]) ~= ARGV[2 + i] then return 0 end
end
redis.call('LLEN', KEYS[2])
redis.call('HLEN', KEYS[4])
redis.call('SADD', KEYS[3], ARGV[1])
redis.call('RPUSH', KEYS[2], unpack(ARGV, 3 + 2 * n, 2 + 3 * n))
redis.call('LTRIM', KEYS[1], n, -1)
for i = 1, n do
  if ARGV[2 + n + i] ~= '' then redis.call('HDEL', KEYS[4], ARGV[2 + n + i]) end
end
return n
