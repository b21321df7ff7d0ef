-- Reads the beginnings of texts and of values of hashes, which may be large.
--
-- KEYS  for each of them its key
-- ARGV  1 bytes of each   2 how many bytes are answered at most   3 up to which size a value of a hash is read
--       then for each of them its field, or '' for a text
-- Returns for each {size, beginning}, as far as the bytes suffice: it ends behind the first ones that are too many. A key of another
-- type has size 0, and a user who may not ask for sizes gets those of the beginnings. It writes nothing.
local head, left, whole, answer = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), {}
for i, key in ipairs(KEYS) do
  if left <= 0 then break end
  local field = ARGV[3 + i]
  local size = field == '' and redis.pcall('STRLEN', key) or field ~= '' and redis.pcall('HSTRLEN', key, field)
  local text = field == '' and redis.pcall('GETRANGE', key, 0, head - 1) or ''
  if type(text) == 'table' then text = '' end
  if type(size) == 'table' then size = #text end
  if field ~= '' and size > 0 and size <= whole then text = string.sub(redis.call('HGET', key, field), 1, head) end
  left = left - #text
  answer[i] = {size, text}
end
return answer
