-- One turn of a poller, atomically: commits jobs that are done and reserves jobs for free
-- workers. Where jobs ended with effects, parts/ends.lua is a part of it, at the line of the verbs. Where one
-- of the ends has a row that parts/ends.lua does not know, commit.lua commits them all.
--
-- KEYS  1 in-flight record   2 process record   3 processes   4 tombstone   5 stat:processed
--       6 pause-all-workers   7 recovered   8 queues   then queues
-- ARGV  process, epoch, last ticket, wanted, byte limit, handed or '', arm, list queues,
--       then two groups, each led by its count:
--       done: ticket   |   ask: queue key, prefix, first quota
--       with what parts/ends.lua says between them. Where the byte limit is two numbers, the second one is of parts/apart.lua,
--       and there is a third group: tickets of jobs that have ended, whose payloads may still be in the record
-- Returns {'ok', flags, committed tickets that were not in the record, {{ask, payload…}…},
--       {ask found empty…}, {key, error…}, queues, commit.lua's answer if it has ends} or {'stale'|'gone'|'reaped'}.
--       A list of nothing is nil: Redis is slow at answering a table.
--       flags: p paused, f fenced, r the record was removed since the process entered,
--       s some payload may have been in a dead process.
--
-- Nothing is written before the record, the lease and the epoch are proven. Redis allows an
-- HDEL as the first write when out of memory, and then all that follow.
local record, process = KEYS[1], KEYS[2]
local removed = redis.call('HEXISTS', record, 'entered') == 0
local lease = redis.call('ZSCORE', KEYS[3], ARGV[1])
local fenced = not lease or string.byte(lease) == 45 -- '-'
local epoch = redis.call('HGET', process, 'epoch')
local rare = redis.pcall('EXISTS', KEYS[4], KEYS[6], KEYS[7]) ~= 0 -- one command in place of three: mostly there is none
local reaped = rare and redis.call('EXISTS', KEYS[4]) == 1
if epoch ~= ARGV[2] then return {reaped and 'reaped' or epoch and 'stale' or 'gone'} end

local at, errors = 8, {}
local written = string.format -- with '%d': Redis is slow at writing numbers that are arguments
--@turn

local acks = number()
local done = redis.call('HDEL', record, '', unpack(ARGV, at + 1, at + acks))
local missing = acks - done
local counted = reaped and done or acks
at = at + acks
local ended
--@verbs
if counted > 0 then try(5, 'INCRBY', written('%d', counted)) end

local asks, jobs, fields, count, empty = {}, {}, {}, 0, {}
local ticket, room, left, chunk, largest = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), 1, 0
local least, apart, payloads
if not left then
  local limit = ARGV[5]
--@apart
end
local function take(ask, limit)
  while limit > 0 and room > 0 and not ask.dry do
    if largest > 0 then chunk = math.max(1, math.min(chunk * 4, 64, math.floor(left / largest))) end
    local n = limit < room and limit or room
    if n > chunk then n = chunk end
    local got, list, size = try(ask.key, 'LPOP', written('%d', n)) or {}, ask.jobs, #ask.jobs
    for i = 1, #got do
      local payload = got[i]
      list[size + i], left = payload, left - #payload
      if #payload > largest then largest = #payload end
    end
    if #got < n then ask.dry = true; empty[#empty + 1] = ask.jobs[1] end
    limit, room = limit - #got, left > 0 and room - #got or 0
  end
end
for i = 1, number() do asks[i] = {key = number(), prefix = arg(), quota = number(), jobs = {i}} end
local paused = rare and try(6, 'GET')
paused = paused and string.match(string.lower(paused), '^%s*true%s*$')
if not paused and not fenced then
  for _, ask in ipairs(asks) do take(ask, ask.quota) end
  for _, ask in ipairs(asks) do take(ask, room) end
  local digits = tonumber(ARGV[4]) - room > 9 and {[0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}
  local tens
  local some = least and largest >= least
  for _, ask in ipairs(asks) do -- tickets rise in the order of the answer
    local list, prefix = ask.jobs, ask.prefix
    if #list > 1 then jobs[#jobs + 1] = list end
    for i = 2, #list do
      ticket, count = ticket + 1, count + 2
      if not digits then fields[count - 1] = written('%d', ticket)
      else -- of ten tickets one is written
        local unit = ticket % 10
        if unit == 0 or not tens then tens = ticket > 9 and written('%d', (ticket - unit) / 10) or '' end
        fields[count - 1] = tens .. digits[unit]
      end
      fields[count] = some and apart(fields[count - 1], prefix, list[i]) or prefix .. list[i]
    end
  end
  if count > 0 then redis.call('HSET', record, unpack(fields)) end
  if some then payloads() end
end
if least then
  local spent = {''}
  for i = 1, number() do spent[i + 1] = 'p' .. arg() end
  local gone = redis.call('HDEL', record, unpack(spent))
  if gone > 0 and redis.call('HINCRBY', record, 'apart', -gone) <= 0 then redis.call('HDEL', record, 'apart') end
end
if ARGV[6] ~= '' then redis.call('HSET', process, 'handed', ARGV[6]) end
if ARGV[7] == '1' then for _, i in ipairs(empty) do redis.call('EXISTS', KEYS[asks[i].key]) end end
local flags = (paused and 'p' or '') .. (fenced and 'f' or '') .. (removed and 'r' or '')
if rare and #jobs > 0 and redis.call('EXISTS', KEYS[7]) == 1 then flags = flags .. 's' end
local queues = ARGV[8] == '1' and try(8, 'SMEMBERS') or false
local function list(of) return #of > 0 and of end
return {'ok', flags, missing, list(jobs), list(empty), list(errors), queues, ended}
