-- number reads a number of at most 15 digits; nil: it is none. Any program may have written it.
local function number(text)
  return text and #text <= 15 and string.match(text, '^%d+$') and tonumber(text) or nil
end
-- entry reads a row of the stream: {id, the event, the arguments} and its number. Of a row that no process wrote, or that has more
-- than so many bytes of an event or of arguments, it has {id}.
local function entry(row, event, args)
  local f, n = row[2], nil
  if f and #f == 6 and f[1] == 'n' and f[3] == 'e' and f[5] == 'a' and #f[4] <= tonumber(event) and #f[6] <= tonumber(args) then n = number(f[2]) end
  if not n then return {row[1]} end
  return {row[1], f[4], f[6]}, n
end
