-- Removes failure records, each known by its bytes, because another element may be at its
-- place by now. The script blanks them first, as Ruby does, so that of equal records the
-- right one goes.
--
-- KEYS  1 failure list
-- ARGV  'seek' to search the whole list for a record that is not near where it was
--       read; then for each record, the foremost first: index where it was read, the record
-- Returns how many were removed.
--
-- A search through a long list takes Redis tens of milliseconds, so a call with many records
-- searches for none; the caller reads them again. With a record that was searched for, the
-- blanks that Ruby processes left go too; else only as many blanks go as were made. If the
-- whole end of the list goes, it is cut off.
--
-- The LTRIM trims nothing. Redis allows it as the first write when out of memory, and then
-- the LSETs, so that a full Redis can be emptied.
local list, length = KEYS[1], redis.call('LLEN', KEYS[1])
if length == 0 then return 0 end
redis.call('LTRIM', list, 0, -1)
local first, last = tonumber(ARGV[2]), tonumber(ARGV[#ARGV - 1])
local dense = last - first < #ARGV -- read as one
local found, n, from, span, least, most = {}, 0, 0, {}, length, 0
local function read(first, last)
  from = math.max(0, first - 200) -- each removal moves the records behind it
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
