-- Returns the packs that are to be folded next, and what was folded before.
--
-- KEYS  1 tally   2 folded   3 depths   4 processes   5 takers   6 failures   7 our schedule   8 the seconds of Ruby's
-- ARGV  1 how many packs at most   2 after how many bytes no more are read
-- Returns {packs in the tally, {field, value, … of folded}, {field, value, … of depths}, processes, takers, failures, jobs in our
--       schedule, seconds in Ruby's, what Redis says of its memory or '', pack, …}. It writes nothing.
--
-- What is beside the tally may be of a wrong type or refused: then its number is -1, or there is nothing.
local length = redis.call('LLEN', KEYS[1])
local answer = {length, redis.call('HGETALL', KEYS[2])}
local function try(otherwise, ...)
  local said = redis.pcall(...)
  if type(said) == 'table' and said.err then said = otherwise end
  answer[#answer + 1] = said
end
try({}, 'HGETALL', KEYS[3])
try(-1, 'ZCARD', KEYS[4])
try(-1, 'ZCARD', KEYS[5])
try(-1, 'LLEN', KEYS[6])
try(-1, 'ZCARD', KEYS[7])
try(-1, 'ZCARD', KEYS[8])
try('', 'INFO', 'memory')
local most, bytes, at = tonumber(ARGV[1]), tonumber(ARGV[2]), 0
while at < length and at < most and bytes > 0 do
  for _, pack in ipairs(redis.call('LRANGE', KEYS[1], at, math.min(at + 16, most) - 1)) do
    answer[#answer + 1] = pack
    bytes = bytes - #pack
  end
  at = at + 16
end
return answer
