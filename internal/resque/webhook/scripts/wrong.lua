-- Reads which things were said to be wrong.
--
-- KEYS  1 state   ARGV  1 how their fields begin   2 how many fields the state may have   3 bytes of a value at most
-- Returns {0, field, value, …}, or {how many fields there are} if the state has more: another program wrote them.
--
-- Atomic: the call. It writes nothing.
local fields = redis.call('HLEN', KEYS[1])
if fields > tonumber(ARGV[2]) then return {tostring(fields)} end
local all, said = redis.call('HGETALL', KEYS[1]), {'0'}
for i = 1, #all, 2 do
  if string.sub(all[i], 1, #ARGV[1]) == ARGV[1] and #all[i] + #all[i + 1] <= tonumber(ARGV[3]) then
    said[#said + 1], said[#said + 2] = all[i], all[i + 1]
  end
end
return said
