-- Takes or keeps the lease of the deliverer that looks for what is wrong.
--
-- KEYS  1 state   ARGV  1 deliverer   2 how long the lease lasts in ms
-- Returns 1 if the deliverer has it, and 0 if another one does.
--
-- Atomic: the call. Redis allows the HDEL as the first write when out of memory, and then the HSET. A lease that ends later than any
-- deliverer would write does not count: Redis's clock went back, or another program wrote it.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holder, till = string.match(redis.call('HGET', KEYS[1], 'lease') or '', '^(%S+) (%d+)$')
if holder and holder ~= ARGV[1] and tonumber(till) > now and tonumber(till) <= now + ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'lease', ARGV[1] .. ' ' .. string.format('%.0f', now + ARGV[2]))
return 1
