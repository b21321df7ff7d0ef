-- Reads the jobs of in-flight records, of each its beginning.
--
-- KEYS  in-flight records
-- ARGV  1 bytes of each job   2 how many jobs are answered at most   3 how many bytes   4 up to which size a job is read
--       5 of the first record only the tickets behind this one
-- Returns how many records were read to their end, then for each record {ticket, size, beginning…}, or the error with which Redis refuses
-- it. It writes nothing.
local head, most, left, whole = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local answer = {0}
for i, key in ipairs(KEYS) do
  local fields, tickets, jobs = redis.pcall('HKEYS', key), {}, {}
  answer[i + 1] = fields.err or jobs
  for _, field in ipairs(fields.err and {} or fields) do
    if string.find(field, '^%d+$') and (i > 1 or tonumber(field) > tonumber(ARGV[5])) then tickets[#tickets + 1] = field end
  end
  table.sort(tickets, function(a, b) return tonumber(a) < tonumber(b) end)
  for _, ticket in ipairs(tickets) do
    if most == 0 or left <= 0 then return answer end
    local size, text = redis.call('HSTRLEN', key, ticket), ''
    if size <= whole then text = string.sub(redis.call('HGET', key, ticket), 1, head) end
    if string.sub(text, 1, 1) == '~' then -- its payload is apart: see parts/apart.lua
      local own = redis.call('HSTRLEN', key, 'p' .. ticket)
      text, size = string.sub(text, 2), size - 1 + own
      if own > 0 and size <= whole then text = string.sub(text .. string.sub(redis.call('HGET', key, 'p' .. ticket), 1, head), 1, head) end
    end
    most, left = most - 1, left - #text
    jobs[#jobs + 1], jobs[#jobs + 2], jobs[#jobs + 3] = ticket, size, text
  end
  answer[1] = i
end
return answer
