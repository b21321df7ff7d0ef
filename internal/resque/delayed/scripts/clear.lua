-- Removes the first jobs of one of resque-scheduler's seconds.
--
-- KEYS  1 delayed_queue_schedule   2 delayed:<second>   then timestamps:<item> of these jobs
-- ARGV  second, length of the key before the item
-- Returns how many were removed.
--
-- The script stops at the first job that differs: another program removed one meanwhile. It removes
-- an empty second. The LTRIM trims nothing: Redis allows it as the first write when out of memory.
redis.call('ZCARD', KEYS[1])
redis.call('LTRIM', KEYS[2], 0, -1)
local there, found = redis.call('LRANGE', KEYS[2], 0, #KEYS - 2), 0
for key = 3, #KEYS do
  if there[key - 2] ~= string.sub(KEYS[key], ARGV[2] + 1) then break end
  redis.pcall('SREM', KEYS[key], 'delayed:' .. ARGV[1])
  found = found + 1
end
redis.call('LTRIM', KEYS[2], found, -1)
if redis.call('LLEN', KEYS[2]) == 0 then redis.call('ZREM', KEYS[1], ARGV[1]) end
return found
