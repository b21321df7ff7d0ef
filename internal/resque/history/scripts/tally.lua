-- Returns the packs that are to be folded next, and what was folded before.
--
-- KEYS  1 tally   2 folded   ARGV  1 how many packs at most   2 after how many bytes no more are read
-- Returns {packs in the tally, {field, value, … of folded}, pack, …}. It writes nothing.
local length = redis.call('LLEN', KEYS[1])
local answer = {length, redis.call('HGETALL', KEYS[2])}
local most, bytes, at = tonumber(ARGV[1]), tonumber(ARGV[2]), 0
while at < length and at < most and bytes > 0 do
  for _, pack in ipairs(redis.call('LRANGE', KEYS[1], at, math.min(at + 16, most) - 1)) do
    answer[#answer + 1] = pack
    bytes = bytes - #pack
  end
  at = at + 16
end
return answer
