-- Takes the first jobs out of a second that resque-scheduler knows.
--
-- KEYS  1 delayed_queue_schedule   2 delayed:<second>   then timestamps:<item> of these jobs
-- ARGV  second, length of what stands before an item in its key
-- Returns how many were taken out.
--
-- At the first that is another by now, since another program removed one meanwhile, it stops. An
-- empty second goes. The LTRIM trims nothing: a first write that Redis allows when out of memory.
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
