-- Counts a page of the delayed jobs by their queues.
--
-- KEYS  1 schedule of delayed jobs, a sorted set   ARGV  1 how many to pass over   2 how many to count
-- Returns {how many there were in the page, Redis's time in ms, then for each queue: its name, its jobs, when the first is due}.
-- As one step: the page. It writes nothing. A job takes about a microsecond, whatever its payload.
local from = tonumber(ARGV[1])
local page = redis.call('ZRANGE', KEYS[1], from, from + tonumber(ARGV[2]) - 1, 'WITHSCORES')
local names, jobs, first = {}, {}, {}
for at = 1, #page, 2 do
  local colon = string.find(page[at], ':', 1, true)
  local length = colon and tonumber(string.sub(page[at], 1, colon - 1))
  if length then
    local queue = string.sub(page[at], colon + 1, colon + length)
    if not jobs[queue] then
      names[#names + 1] = queue
      jobs[queue], first[queue] = 0, page[at + 1]
    end
    jobs[queue] = jobs[queue] + 1
  end
end
local time = redis.call('TIME')
local answer = {string.format('%.0f', #page / 2), string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))}
for _, queue in ipairs(names) do
  answer[#answer + 1] = queue
  answer[#answer + 1] = string.format('%.0f', jobs[queue])
  answer[#answer + 1] = first[queue]
end
return answer
