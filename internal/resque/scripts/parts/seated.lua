-- An exchange behind which the process claims the seat of a sentry.
--
-- KEYS  those of exchange.lua, and the sentries of the crew
-- ARGV  those of exchange.lua, how many seats there are, how long a place holds that is not claimed again, in ms
-- Returns the answer of exchange.lua. If that is 'ok', the answer of sit.lua is the 8th, or 1 where Redis refuses the claim.
local function exchange()
--@exchange
end
local function sit(KEYS, ARGV)
--@sit
end
local answer = exchange()
if answer[1] == 'ok' then
  local done, seat = pcall(sit, {KEYS[#KEYS], KEYS[3]}, {ARGV[1], ARGV[#ARGV - 1], ARGV[#ARGV]})
  answer[8] = done and seat or 1
end
return answer
