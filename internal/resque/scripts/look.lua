-- Reads a page of a list for a walk through it, and returns the elements that contain all given texts.
-- Other clients change the list between two pages, so the walk knows its place by elements it has seen.
--
-- KEYS  1 list
-- ARGV  1 '1' for a walk from the head, '' for one from the tail   2 position of the first element that
--       was not seen, or from the tail of the one behind it; -1: at the start   3 elements of a page
--       4 how many digests, then the digests of the elements next to that position, the nearest first
--       then the texts
-- Returns {position of the first element read, how many were read, their bytes, length of the list,
--       then index, element…}, or the error with which Redis refuses the key. It writes nothing.
--
-- If the elements that were seen are gone, a walk from the head begins again there: all before them
-- may have gone too. A walk from the tail goes on, because what goes moves no element behind it. An element that was seen may have
-- an equal one further on, so a walk never goes on there, but only where it has been: it may see elements twice.
local list, ahead, at, size = KEYS[1], ARGV[1] == '1', tonumber(ARGV[2]), tonumber(ARGV[3])
local length = redis.pcall('LLEN', list)
if type(length) == 'table' then return length end
if at < 0 then at = ahead and 0 or length end
local function digest(element) return string.sub(redis.sha1hex(element), 1, 16) end
local function place(nth) return ahead and at - nth or at + nth - 1 end
local digests = tonumber(ARGV[4])
if digests > 0 and digest(redis.call('LINDEX', list, place(1)) or '') ~= ARGV[5] then
  local from, moved = math.max(0, at - size), nil
  local near = redis.call('LRANGE', list, from, at + size)
  for nth = 1, digests do
    for i, element in ipairs(near) do
      local by = from + i - 1 - place(nth)
      if (not moved or math.abs(by) < math.abs(moved)) and digest(element) == ARGV[4 + nth]
        and (ahead and by <= 0 or not ahead and by >= 0) then moved = by end
    end
    if moved then break end
  end
  at = moved and at + moved or ahead and 0 or math.min(at, length)
end
local first = ahead and at or math.max(0, at - size)
local page = at == 0 and not ahead and {} or redis.call('LRANGE', list, first, ahead and at + size - 1 or at - 1)
local answer, bytes = {first, #page, 0, length}, 0
for i = 1, #page do
  local nth = ahead and i or #page + 1 - i
  local element, fits = page[nth], true
  bytes = bytes + #element
  for text = 5 + digests, #ARGV do fits = fits and string.find(element, ARGV[text], 1, true) end
  if fits then answer[#answer + 1], answer[#answer + 2] = first + nth - 1, element end
end
answer[3] = bytes
for nth = 1, math.min(3, #page) do -- the digests by which the next page finds its place
  table.insert(answer, 4 + nth, digest(page[ahead and #page + 1 - nth or nth]))
end
return answer
