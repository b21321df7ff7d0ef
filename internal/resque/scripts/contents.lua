-- Reads the first elements of a list, a set or a hash, cut.
--
-- KEYS  1 the key
-- ARGV  1 'list', 'set' or 'hash'   2 most elements   3 most bytes of each that are returned   4 about how many bytes are read at most
-- Returns {field of a hash or '', the beginning of the element, its bytes} of each, in one list, or the error with which Redis
--       refuses the key. It writes nothing.
--
-- Elements may be large, so it begins with one of a list, and reads more at a time as long as they are small. A set and a hash
-- are read a few at a time.
local key, kind, most, cut, room = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local reply, count = {}, 0
local function add(field, element)
  room = room - #element
  if count == most then return end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = field, string.sub(element, 1, cut), #element
  count = count + 1
end
if kind == 'list' then
  local step = 1
  while count < most and room > 0 do
    local page = redis.pcall('LRANGE', key, count, count + step - 1)
    if page.err then return page end
    if #page == 0 then break end
    for _, element in ipairs(page) do add('', element) end
    step = math.min(step * 4, 25)
  end
  return reply
end
local cursor, scan, wide = '0', kind == 'set' and 'SSCAN' or 'HSCAN', kind == 'set' and 1 or 2
repeat
  local page = redis.pcall(scan, key, cursor, 'COUNT', 5)
  if page.err then return page end
  cursor = page[1]
  for i = 1, #page[2], wide do
    if wide == 1 then add('', page[2][i]) else add(page[2][i], page[2][i + 1]) end
  end
until cursor == '0' or count == most or room <= 0
return reply
