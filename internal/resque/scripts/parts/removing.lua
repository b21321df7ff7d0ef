-- The body of remove.lua, which says what KEYS, ARGV and the answer are. A step of an operation does the same.
local list, length = KEYS[1], redis.call('LLEN', KEYS[1])
if length == 0 then return {} end
redis.call('LTRIM', list, 0, -1)
local first, last = tonumber(ARGV[2]), tonumber(ARGV[#ARGV - 1])
local dense = last - first < #ARGV -- read as one
local found, there, n, from, span, least, most = {}, {}, 0, 0, {}, length, 0
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
    there[n] = at / 2
    least, most = math.min(least, index), math.max(most, index)
  end
end
if n == 0 then return there end
if n == length - least and most == length - 1 then
  redis.call('LTRIM', list, least == 0 and 1 or 0, least == 0 and 0 or least - 1)
  return there
end
for index in pairs(found) do redis.call('LSET', list, index, '') end
if ARGV[1] == 'seek' then redis.call('LREM', list, 0, '')
else redis.call('LREM', list, least + most < length and n or -n, '') end
return there
