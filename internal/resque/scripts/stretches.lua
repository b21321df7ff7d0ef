-- Reads stretches of many lists.
--
-- KEYS  the list of each stretch
-- ARGV  1 about how many bytes are read at most   2 how many elements at most   then of each stretch its first and its last position
-- Returns of each {elements of the list, element, ...}, or the error with which Redis refuses the list. It ends behind the stretch with which
--       the bytes are too many, which may have fewer elements then. Of a stretch of more elements than are left it returns only how many the
--       list has, and ends. It writes nothing.
--
-- Elements may be large, so it begins with one, and reads more at a time as long as they are small.
local room, most, step, answer = tonumber(ARGV[1]), tonumber(ARGV[2]), 1, {}
for i, key in ipairs(KEYS) do
  if room <= 0 then break end
  local size, first = redis.pcall('LLEN', key), tonumber(ARGV[2 * i + 1])
  if type(size) == 'table' then
    answer[i] = size
  else
    local last, one = math.min(tonumber(ARGV[2 * i + 2]), size - 1), {size}
    answer[i] = one
    if last - first + 1 > most then break end
    while first <= last and room > 0 do
      for _, element in ipairs(redis.call('LRANGE', key, first, math.min(last, first + step - 1))) do
        one[#one + 1], first, most, room = element, first + 1, most - 1, room - #element
      end
      step = math.min(step * 4, 25)
    end
  end
end
return answer
