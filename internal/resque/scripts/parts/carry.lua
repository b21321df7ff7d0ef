-- extent is about how many bytes an answer has.
local function extent(answer)
  if type(answer) == 'string' then return #answer + 16 end
  if type(answer) ~= 'table' then return 16 end
  local sum = 16
  for _, part in ipairs(answer) do sum = sum + extent(part) end
  return sum
end

-- carry does what a renewal carries beside the lease: commands on one key each, of which Redis may refuse any without harm
-- to the lease or to the other commands. The record, a hash, has the number of the last cargo whose writes were done, carried: a
-- cargo that is sent again, because its answer was lost, writes nothing a second time.
--
-- ARGV  from that number on: number of the cargo, how many of its commands write, then for each command, writes first:
--       its name, the number of its key in KEYS, how many arguments, arguments…
-- Returns {'', answer} or {error} of each command. An answer of more than 128 KiB is an error: jobs can be of any size, and the
-- answer to the lease must not be too large to be read.
local function carry(record, at, carried)
  local answers = {}
  if not ARGV[at] then return answers end
  local writes = tonumber(ARGV[at + 1])
  local again = tonumber(ARGV[at]) <= (tonumber(carried) or 0)
  if not again and writes > 0 then redis.call('HSET', record, 'carried', ARGV[at]) end
  at = at + 2
  while at <= #ARGV do
    local last, answer = at + 2 + ARGV[at + 2], ''
    if #answers >= writes or not again then
      answer = redis.pcall(ARGV[at], KEYS[tonumber(ARGV[at + 1])], unpack(ARGV, at + 3, last))
    end
    local kind = type(answer)
    if kind == 'table' and answer.err then
      answers[#answers + 1] = {answer.err}
    elseif kind ~= 'number' and extent(answer) > 131072 then
      answers[#answers + 1] = {'ERR the answer is too large for a renewal'}
    else
      answers[#answers + 1] = {'', answer}
    end
    at = last + 1
  end
  return answers
end
