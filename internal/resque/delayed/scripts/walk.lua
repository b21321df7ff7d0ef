-- Reads a page of our own schedule for a walk in the order of the times, and returns the jobs that contain
-- all given texts.
--
-- KEYS  1 schedule
-- ARGV  1 time from which on in ms, or '-inf'   2 how many jobs of that time were seen   3 digest of the
--       last of these or ''   4 jobs of a page   then the texts
-- Returns {how many were read, their bytes, and of the last one: its time, which one it is of that
--       time, its digest, then of each job: member, time, which one it is of that time}, or the error with
--       which Redis refuses the key. It writes nothing.
--
-- If the last job that was seen is gone, the walk sees those of its time again.
local schedule, from, seen = KEYS[1], ARGV[1], tonumber(ARGV[2])
local size = redis.pcall('ZCARD', schedule)
if type(size) == 'table' then return size end
local function digest(member) return string.sub(redis.sha1hex(member), 1, 16) end
if seen > 0 then
  local last = redis.call('ZRANGEBYSCORE', schedule, from, from, 'LIMIT', seen - 1, 1)[1]
  if not last or digest(last) ~= ARGV[3] then seen = 0 end
end
local page = redis.call('ZRANGEBYSCORE', schedule, from, '+inf', 'WITHSCORES', 'LIMIT', seen, ARGV[4])
local answer, bytes, time, nth = {#page / 2, 0, '', 0, ''}, 0, seen > 0 and page[2] == from and from, seen
for i = 1, #page, 2 do
  local member, fits = page[i], true
  if page[i + 1] ~= time then time, nth = page[i + 1], 0 end
  nth, bytes = nth + 1, bytes + #member
  for text = 5, #ARGV do fits = fits and string.find(member, ARGV[text], 1, true) end
  if fits then
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = member, time, nth
  end
end
if #page > 0 then answer[2], answer[3], answer[4], answer[5] = bytes, time, nth, digest(page[#page - 1]) end
return answer
