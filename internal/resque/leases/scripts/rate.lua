-- Gives a server a piece of the units that a token has in a window.
--
-- KEYS  1 units given in this window, and when it ends, in ms: a string that ends with the window
-- ARGV  1 units wanted   2 units of a window   3 length of a window in ms
-- Returns {units given, ms until the window ends}. As one step: the sum of all servers never exceeds the units of a window.
--
-- Redis allows a DEL as the first write when out of memory, and then the SET: consumers go on.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local wanted, limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local given, ends = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
given, ends = tonumber(given or '0'), tonumber(ends or '0')
if ends <= now or ends > now + window then
  given, ends = 0, now + window
end
local units = math.max(math.min(wanted, limit - given), 0)
if units > 0 then
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[1], string.format('%.0f %.0f', given + units, ends), 'PX', string.format('%.0f', ends - now))
end
return {units, ends - now}
