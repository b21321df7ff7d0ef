-- Puts another item in the place of one of resque-scheduler's, for the same second, in one step.
--
-- KEYS  1 delayed:<second>   2 timestamps:<item>   3 timestamps:<other item>
-- ARGV  1 second   2 item   3 other item
-- Returns 1, or 0 if the item is not there any more, or the error with which Redis refuses a key.
--
-- A hint to the item's millisecond goes stale: the other item is due at the whole second. The LTRIM
-- trims nothing: Redis allows it as the first write when out of memory.
for key, read in ipairs({'LLEN', 'SCARD', 'SCARD'}) do
  local reply = redis.pcall(read, KEYS[key])
  if type(reply) == 'table' then return reply end
end
local at = redis.call('LPOS', KEYS[1], ARGV[2])
if not at then return 0 end
redis.call('LTRIM', KEYS[1], 0, -1)
redis.call('LSET', KEYS[1], at, ARGV[3])
redis.call('SADD', KEYS[3], 'delayed:' .. ARGV[1])
if not redis.call('LPOS', KEYS[1], ARGV[2]) then redis.call('SREM', KEYS[2], 'delayed:' .. ARGV[1]) end
return 1
