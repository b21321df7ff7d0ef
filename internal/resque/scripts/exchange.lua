-- One turn of a poller, atomically: commits jobs that are done and reserves jobs for free
-- workers. Where jobs ended with effects, parts/ends.lua is a part of it, at the line of the verbs. Where one
-- of the ends has a row that parts/ends.lua does not know, commit.lua commits them all.
--
-- KEYS  1 in-flight record   2 process record   3 processes   4 tombstone   5 stat:processed
--       6 pause-all-workers   7 recovered   8 queues   then queues
-- ARGV  process, epoch, last ticket, wanted, byte limit, handed or '', arm, list queues,
--       then two groups, each led by its count:
--       done: ticket   |   ask: queue key, prefix, first quota
--       with what parts/ends.lua says between them
-- Returns {'ok', flags, committed tickets that were not in the record, {{ask, payload…}…},
--       {ask found empty…}, {key, error…}, queues, commit.lua's answer if it has ends} or {'stale'|'gone'|'reaped'}.
--       flags: p paused, f fenced, r the record was removed since the process entered,
--       s some payload may have been in a dead process.
--
-- Nothing is written before the record, the lease and the epoch are proven. Redis allows an
-- HDEL as the first write when out of memory, and then all that follow.
local record, process = KEYS[1], KEYS[2]
local removed = redis.call('HEXISTS', record, 'entered') == 0
local fenced = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or '-1') < 0
local epoch = redis.call('HGET', process, 'epoch')
local reaped = redis.call('EXISTS', KEYS[4]) == 1
if epoch ~= ARGV[2] then return {reaped and 'reaped' or epoch and 'stale' or 'gone'} end

local at, errors = 8, {}
--@turn

local acks = number()
local done = redis.call('HDEL', record, '', unpack(ARGV, at + 1, at + acks))
local missing = acks - done
local counted = reaped and done or acks
at = at + acks
local ended
--@verbs
if counted > 0 then try(5, 'INCRBY', counted) end

local asks, jobs, fields, count, empty = {}, {}, {}, 0, {}
local ticket, room, left, chunk, largest = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), 1, 1
local function take(ask, limit)
  while limit > 0 and room > 0 and not ask.dry do
    local n = math.min(limit, room, chunk)
    local got, list, size = try(ask.key, 'LPOP', n) or {}, ask.jobs, #ask.jobs
    for i, payload in ipairs(got) do
      list[size + i], left = payload, left - #payload
      if #payload > largest then largest = #payload end
    end
    if #got < n then ask.dry = true; empty[#empty + 1] = ask.jobs[1] end
    limit, room = limit - #got, left > 0 and room - #got or 0
    chunk = math.max(1, math.min(chunk * 4, 64, math.floor(left / largest)))
  end
end
for i = 1, number() do asks[i] = {key = number(), prefix = arg(), quota = number(), jobs = {i}} end
local paused = try(6, 'GET')
paused = paused and string.match(string.lower(paused), '^%s*true%s*$')
if not paused and not fenced then
  for _, ask in ipairs(asks) do take(ask, ask.quota) end
  for _, ask in ipairs(asks) do take(ask, room) end
  for _, ask in ipairs(asks) do -- tickets rise in the order of the answer
    local list, prefix = ask.jobs, ask.prefix
    if #list > 1 then jobs[#jobs + 1] = list end
    for i = 2, #list do
      ticket, count = ticket + 1, count + 2
      fields[count - 1], fields[count] = ticket, prefix .. list[i]
    end
  end
  if count > 0 then redis.call('HSET', record, unpack(fields)) end
end
if ARGV[6] ~= '' then redis.call('HSET', process, 'handed', ARGV[6]) end
if ARGV[7] == '1' then for _, i in ipairs(empty) do redis.call('EXISTS', KEYS[asks[i].key]) end end
local flags = (paused and 'p' or '') .. (fenced and 'f' or '') .. (removed and 'r' or '')
if #jobs > 0 and redis.call('EXISTS', KEYS[7]) == 1 then flags = flags .. 's' end
return {'ok', flags, missing, jobs, empty, errors, ARGV[8] == '1' and try(8, 'SMEMBERS') or {}, ended}
