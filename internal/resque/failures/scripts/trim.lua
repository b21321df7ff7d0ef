-- Removes some of the oldest failures of a list that has too many.
--
-- KEYS  1 failure list
-- ARGV  how many may stay, at most how many to remove
-- Returns how many were removed.
local over = math.min(redis.call('LLEN', KEYS[1]) - tonumber(ARGV[1]), tonumber(ARGV[2]))
if over <= 0 then return 0 end
redis.call('LTRIM', KEYS[1], over, -1)
return over
