-- Reads many hashes, whole or some of their fields.
--
-- KEYS  the hashes
-- ARGV  1 about how many bytes are read at most   then the fields; none: all
-- Returns of each the values of the fields, or all fields with their values, or the error with which Redis refuses the key. It ends behind
--       the hash with which the bytes are too many. It writes nothing.
local room, fields, answer = tonumber(ARGV[1]), {}, {}
for i = 2, #ARGV do fields[i - 1] = ARGV[i] end
for i, key in ipairs(KEYS) do
  if room <= 0 then break end
  local one = #fields > 0 and redis.pcall('HMGET', key, unpack(fields)) or #fields == 0 and redis.pcall('HGETALL', key)
  answer[i] = one
  if not one.err then
    for _, text in ipairs(one) do room = room - (text and #text or 0) end
  end
end
return answer
