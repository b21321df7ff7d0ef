-- An exchange in its usual form, as brief.lua, of any number of queues, also none, and of any number of jobs that are done. It makes the
-- tickets itself: where few jobs come of many that were asked for, that is less than to name all.
--
-- KEYS  1 to 7 as brief.lua   then queues   then locks
-- ARGV  process, epoch, last ticket, wanted, how many queues, '1' to track those that are found empty, for each queue its prefix and a number:
--       its first quota, and 1024 times how many jobs are popped before any of their sizes is known; then as brief.lua: the tickets that are
--       done, and the fields of the locks
-- Returns {payload…, how many jobs each queue gave…}, and behind them what parts/told.lua adds. Where a queue had fewer than were asked
--       of it, the number is -1 less it.
if redis.call('HEXISTS', KEYS[1], 'entered') == 0 then return end
local queues = ARGV[5] + 0
local locks = #KEYS - 7 - queues
--@unlocking

local from, written = 7 + 2 * queues, string.format
acks = acks + most - from + 1
local missing = acks
if from > most then call('HDEL', record, '') end -- a server that does not write ends the script here, and not the look at a queue
for at = from, most, 30 do missing = missing - call('HDEL', record, unpack(argv, at, at + 29 < most and at + 29 or most)) end
local counted = acks > 0 and try('INCRBY', KEYS[5], written('%d', acks))

local none, lists, dry, gave, broken = {}, {}, {}, {}, nil
local ticket, room, largest, left = argv[3] + 0, argv[4] + 0, 0, 4194304 -- as MaxExchangeBytes
local function take(i, limit, chunk)
  while limit > 0 and room > 0 and not dry[i] do
    if largest > 0 then chunk = math.max(1, math.min(chunk, 64, math.floor(left / largest))) end
    local n = math.min(limit, room, chunk)
    local got, list = try('LPOP', KEYS[7 + i], written('%d', n)) or none, lists[i]
    local count, before = #got, gave[i] or 0
    for k = 1, count do
      local payload = got[k]
      left = left - #payload
      if #payload > largest then largest = #payload end
      if list then list[before + k] = payload end
    end
    if got.err then
      broken = broken or {}
      broken[#broken + 1], broken[#broken + 2] = KEYS[7 + i], got.err
    end
    lists[i], gave[i], dry[i] = list or got, before + count, count < n
    limit, room, chunk = limit - count, left > 0 and room - count or 0, largest > 0 and chunk * 4 or chunk
  end
end
for pass = 1, 2 do
  for i = 1, queues do
    local number = argv[6 + 2 * i] + 0
    local quota = number % 1024
    take(i, pass == 1 and quota or room, math.max(1, (number - quota) / 1024))
  end
end

local jobs, fields, filled, at = none, {}, 0, 0
for i = 1, queues do -- tickets rise in the order of the answer
  local list, prefix, count = lists[i], argv[5 + 2 * i], gave[i] or 0
  if at == 0 and count > 0 then jobs = list end -- which the others join
  for k = 1, count do
    local payload = list[k]
    ticket, at = ticket + 1, at + 1
    fields[filled + 1], fields[filled + 2], jobs[at] = written('%d', ticket), prefix .. payload, payload
    filled = filled + 2
    if filled == 30 then
      call('HSET', record, unpack(fields))
      filled = 0
    end
  end
end
if filled > 0 then call('HSET', record, unpack(fields, 1, filled)) end
for i = 1, queues do jobs[at + i] = dry[i] and -1 - (gave[i] or 0) or gave[i] or 0 end
if argv[6] == '1' then for i = 1, queues do if dry[i] then call('EXISTS', KEYS[7 + i]) end end end
--@told
