-- Notes how far Redis's clock jumped ahead.
--
-- KEYS  1 jump: how far, in ms, and until when that counts
-- ARGV  ms
-- Returns how many ms later leases end now.
--
-- Atomic: the call. A longer jump that is noted stays, since several servers note the same one. Redis does it when out of
-- memory, too.
local time, ms, text = redis.call('TIME'), tonumber(ARGV[1]), redis.pcall('GET', KEYS[1])
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local was, till = string.match(type(text) == 'string' and text or '', '^(%d+) (%d+)$')
local jump = string.format('%.0f', math.max(ms, tonumber(was or 0)))
till = math.max(now + ms, tonumber(till or 0))
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], jump .. string.format(' %.0f', till), 'PX', string.format('%.0f', till - now))
return tonumber(jump)
