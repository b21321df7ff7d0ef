-- Commits how jobs ended: for each job it writes rows and removes the ticket. A job's own process
-- and a reaper use it. A plain done job needs less: the HDEL of an exchange.
--
-- KEYS  1 record: ticket to bytes   2, 3 of the guard   4 stat:processed   5 stat:failed   then the rows'
-- ARGV  guard and value:  process, epoch   2 is the process record, 3 the tombstone
--                         dead, process    2 is the set of processes, where the process is fenced
--       one letter for each key, its type: h hash, l list, s set, z sorted set, t string, '.' any
--       then for each job: ticket, '' or 'done' or 'failed', how many values its rows have, the rows.
--       A row is a verb, how many values follow, and the values. A key is its number in KEYS.
--         COMMAND      key, arguments…           a command of Redis
--         head, tail   key, n                    push the job's bytes, without the first n, to an end of a list
--         hold         key, id, text, ms         keep a lock, or take it again unless another job has it
--         refund       n, n keys, arguments…     give back the start that a rate counted; see below
--         ?COMMAND     key, answer, arguments…   guard: unless this is the answer (nil is ''), leave the job
--         ~verb        as the verb               soft: if it is refused, report that and go on
--       Guards come first, then head or tail; soft rows come last.
-- Returns {'ok', tickets that were not in the record, number of refusals, number of jobs left, then the
--       refusals: ticket, key, error…, the tickets left…, the lists that were pushed to…}, or {'stale'},
--       {'gone'}, {'reaped'}. A refusal with the ticket '' is of a soft row or a total: its job has gone.
--
-- Atomic: the call. Of a job every row is written and the ticket removed, or nothing is written and the
-- ticket stays: before the job's first write all its keys are read as their types, each key once a call.
-- The first row is its own proof. What no read foresees (a field that is no number, a Lua error in a
-- verb) refuses the job as well, but the rows before it are written, and written again next time.
local call, try, byte, sub = redis.call, redis.pcall, string.byte, string.sub
local record, types = KEYS[1], ARGV[3]
local strict = ARGV[1] ~= 'process' -- then a job without its ticket in the record is not committed
if ARGV[1] == 'process' then
  local epoch = call('HGET', KEYS[2], 'epoch')
  strict = call('EXISTS', KEYS[3]) == 1
  if epoch ~= ARGV[2] then return {strict and 'reaped' or epoch and 'stale' or 'gone'} end
elseif ARGV[1] == 'dead' and tonumber(call('ZSCORE', KEYS[2], ARGV[2]) or '0') >= 0 then
  return {'stale'}
end
call('HDEL', record, '') -- Redis allows this when out of memory, and with it all that follows

local ticket, known, filled, reply = nil, {}, {}, {'ok', 0, 0, 0}
local function refuse(ticket, key, why)
  local n = #reply
  reply[3], reply[n + 1], reply[n + 2], reply[n + 3] = reply[3] + 1, ticket, key, why
end
local function fills(list)
  if not filled[list] then filled[list], filled[#filled + 1] = true, list end
end
local function typed(k) -- nil, or why key k cannot be read as its type, and the key
  if known[k] then return end
  local t = sub(types, k, k)
  local read = t == 'h' and 'HLEN' or t == 'l' and 'LLEN' or t == 's' and 'SCARD' or t == 'z' and 'ZCARD'
    or t == 't' and 'GET'
  local answer = read and try(read, KEYS[k])
  if type(answer) == 'table' then return answer.err, KEYS[k] end
  known[k] = true
end
local function allTyped(at) -- the same for all keys of the verb at a row
  for i = at + 3, at + 2 + ARGV[at + 2] do
    local why, key = typed(ARGV[i] + 0)
    if why then return why, key end
  end
end
local function own(verb, key, a, text, ms) -- head, tail, hold: nil, or why it is refused
  local answer
  if verb == 'hold' then
    answer = try('HEXISTS', key, a)
    if answer == 1 or answer == 0 and call('EXISTS', key) == 0 then
      call('HSET', key, a, text)
      answer = try('PEXPIRE', key, ms)
    end
  else
    local bytes = call('HGET', record, ticket)
    if not bytes then return 'NOBYTES the record does not have the ticket' end
    answer = try(verb == 'head' and 'LPUSH' or 'RPUSH', key, sub(bytes, a + 1))
    if type(answer) == 'number' then fills(key) end
  end
  if type(answer) == 'table' then return answer.err end
end

-- Gives back to a rate the start of a job that was not run, once. Keys: limits, rate [turns];
-- arguments: the limit's name [the lane's]. Where only that lane has the rate, its turn, which was
-- put off until the next start, comes now.
local function refund(keys, args)
  if call('HEXISTS', record, ticket) == 0 then return end
  local said, due = call('HGET', keys[1], args[1]) or '', tonumber(call('GET', keys[2]) or '')
  local every = tonumber(string.match(said, '^([%d.]+) ?%d*$') or '') or said ~= '' and 1000000
  if every and due then call('SET', keys[2], string.format('%.2f', due - every), 'KEEPTTL') end
  if not keys[3] then return end
  local time = call('TIME')
  call('ZADD', keys[3], 'XX', 'LT', string.format('%.0f', time[1] * 1000000 + time[2]), args[2])
end
local verbs = {refund = refund}
local function run(verb, at) -- nil, or why the verb of the row is refused, and its first key
  local n = ARGV[at + 2] + 0
  local keys, args = {}, {unpack(ARGV, at + 3 + n, at + 1 + ARGV[at + 1])}
  for i = 1, n do keys[i] = KEYS[ARGV[at + 2 + i] + 0] end
  local ok, why = pcall(verbs[verb], keys, args)
  if not ok then return type(why) == 'table' and why.err or tostring(why), keys[1] end
end

-- prove and write go through a job's rows. They return nil, or why the job is refused, and the key.
local function prove(at, last) -- '' where a guard does not hold
  local first = true
  while at < last do
    local verb, to, why, key = ARGV[at], at + 1 + ARGV[at + 1]
    local c = byte(verb) -- 63 is ?, 126 is ~, below 91 a capital
    if c == 63 then
      key = KEYS[ARGV[at + 2] + 0]
      local answer = try(sub(verb, 2), key, unpack(ARGV, at + 4, to))
      if type(answer) == 'table' then why = answer.err
      elseif tostring(answer or '') ~= ARGV[at + 3] then return '' end
    elseif c < 91 or verb == 'head' or verb == 'tail' or verb == 'hold' then
      if not first then why, key = typed(ARGV[at + 2] + 0) end
    elseif c < 126 then
      why, key = allTyped(at)
    end
    if why then return why, key end
    first, at = first and c == 63, to + 1
  end
end
local function write(at, last)
  while at < last do
    local verb, to, why, key = ARGV[at], at + 1 + ARGV[at + 1]
    local c = byte(verb)
    local soft = c == 126
    if soft then
      verb = sub(verb, 2)
      c = byte(verb)
    end
    key = KEYS[ARGV[at + 2] + 0]
    if c == 63 then -- prove asked it
    elseif c < 91 then
      local answer = try(verb, key, unpack(ARGV, at + 3, to))
      if type(answer) == 'table' then why = answer.err
      elseif verb == 'RPUSH' or verb == 'LPUSH' then fills(key) end
    elseif verb == 'head' or verb == 'tail' or verb == 'hold' then
      why = own(verb, key, ARGV[at + 3], ARGV[at + 4], ARGV[at + 5])
    else
      if soft then why, key = allTyped(at) end
      if not why then why, key = run(verb, at) end
    end
    if why and soft then refuse('', key, why) elseif why then return why, key end
    at = to + 1
  end
end

local left, gone, done, failed, at = {}, {}, 0, 0, 4
while at <= #ARGV do
  local counts, last = ARGV[at + 1], at + 2 + ARGV[at + 2]
  ticket = ARGV[at]
  if strict and call('HEXISTS', record, ticket) == 0 then reply[2] = reply[2] + 1
  else
    local why, key = prove(at + 3, last)
    if not why then why, key = write(at + 3, last) end
    if why == '' then left[#left + 1] = ticket
    elseif why then refuse(ticket, key, why)
    else
      gone[#gone + 1] = ticket
      if counts ~= '' then done = done + 1 end
      if counts == 'failed' then failed = failed + 1 end
    end
  end
  at = last + 1
end
for i = 1, #gone, 1000 do
  local to = math.min(i + 999, #gone)
  reply[2] = reply[2] + to - i + 1 - call('HDEL', record, unpack(gone, i, to))
end
local answer = done > 0 and try('INCRBY', KEYS[4], done)
if type(answer) == 'table' then refuse('', KEYS[4], answer.err) end
answer = failed > 0 and try('INCRBY', KEYS[5], failed)
if type(answer) == 'table' then refuse('', KEYS[5], answer.err) end
reply[4] = #left
for i = 1, #left do reply[#reply + 1] = left[i] end
for i = 1, #filled do reply[#reply + 1] = filled[i] end
return reply
