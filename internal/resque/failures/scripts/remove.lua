-- Removes failure records, each known by its bytes: where it was read something else
-- may stand by now. They are blanked first, as Ruby does, so that of equal records
-- the right one goes.
--
-- KEYS  1 failure list
-- ARGV  'seek' to look through the whole list for a record that is not near where it was
--       read; then for each record, the foremost first: index where it was read, the record
-- Returns how many were removed.
--
-- Looking through a long list takes Redis tens of milliseconds, so of many records none
-- is sought; the caller reads them again. Blanks that a Ruby process left behind go with
-- a record that was sought; else as many blanks go as were made. What is all of the end
-- of the list is cut off.
--
-- The LTRIM trims nothing: a first write that Redis allows when out of memory, and
-- with it the LSETs, so that a full Redis can be emptied.
local list, length = KEYS[1], redis.call('LLEN', KEYS[1])
if length == 0 then return 0 end
redis.call('LTRIM', list, 0, -1)
local first, last = tonumber(ARGV[2]), tonumber(ARGV[#ARGV - 1])
local dense = last - first < #ARGV -- read as one
local found, n, from, span, least, most = {}, 0, 0, {}, length, 0
local function read(first, last)
  from = math.max(0, first - 200) -- whoever removes a record moves those behind it
  span = redis.call('LRANGE', list, from, last)
end
local function place(index, record)
  if not dense then
    if not found[index] and redis.call('LINDEX', list, index) == record then return index end
    read(index, index)
  end
  for i = index - from + 1, 1, -1 do
    if span[i] == record and not found[from + i - 1] then return from + i - 1 end
  end
  return ARGV[1] == 'seek' and redis.call('LPOS', list, record)
end
if dense then read(first, last) end
for at = 2, #ARGV, 2 do
  local index, record = tonumber(ARGV[at]), ARGV[at + 1]
  if not dense or found[index] or span[index - from + 1] ~= record then index = place(index, record) end
  if index then
    found[index], n = true, n + 1
    least, most = math.min(least, index), math.max(most, index)
  end
end
if n == 0 then return 0 end
if n == length - least and most == length - 1 then
  redis.call('LTRIM', list, least == 0 and 1 or 0, least == 0 and 0 or least - 1)
  return n
end
for index in pairs(found) do redis.call('LSET', list, index, '') end
if ARGV[1] == 'seek' then redis.call('LREM', list, 0, '')
else redis.call('LREM', list, least + most < length and n or -n, '') end
return n
