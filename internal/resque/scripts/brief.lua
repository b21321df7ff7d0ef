-- An exchange in its usual form: jobs that are done and at most release their locks, and one queue. It does what exchange.lua does,
-- by a shorter way. Where anything is unusual it writes nothing and answers nil, and exchange.lua follows.
--
-- KEYS  1 in-flight record   2 process record   3 processes   4 tombstone   5 stat:processed
--       6 pause-all-workers   7 recovered   8 queue   then locks
-- ARGV  process, epoch, prefix, wanted, the next tickets, as many as are wanted and two at least, then the tickets that are done,
--       one at least; those of the locks are the last, and behind them are the fields of the locks
-- Returns {payload…}, and behind them what parts/told.lua adds.
--
-- All tickets but the first ones are removed last, so that the table of the record does not shrink and grow each time.
local locks = #KEYS - 8
--@unlocking

local prefix, wanted, missing, counted, jobs = argv[3], argv[4]
if wanted == '1' or wanted == '2' then
  acks = acks + most - 6
  missing = acks - call('HDEL', record, unpack(argv, 7, most))
  counted = acks > 0 and try('INCRBY', KEYS[5], acks == 1 and '1' or acks == 2 and '2' or string.format('%d', acks))
  jobs = try('LPOP', KEYS[8], wanted) or {}
  local first, second = jobs[1], jobs[2]
  if second then call('HSET', record, argv[5], prefix .. first, argv[6], prefix .. second)
  elseif first then call('HSET', record, argv[5], prefix .. first) end
else
  local limit = 4194304 -- as MaxExchangeBytes
  local room, next, left, fields, filled = tonumber(wanted), 5, limit, {}, 0
  local pops = math.min(room, 64)
  local done = next + room
  acks = acks + most - done + 1
  missing = acks
  local function remove(from) -- and 29 more
    local to = from + 29
    missing = missing - call('HDEL', record, unpack(argv, from, to < most and to or most))
  end
  remove(done)
  counted = acks > 0 and try('INCRBY', KEYS[5], string.format('%d', acks))
  repeat
    local got = try('LPOP', KEYS[8], pops == room and not jobs and wanted or string.format('%d', pops)) or {}
    local count = #got
    for i = 1, count do
      local payload = got[i]
      fields[filled + 1], fields[filled + 2] = argv[next], prefix .. payload
      next, filled, left = next + 1, filled + 2, left - #payload
      if jobs then jobs[#jobs + 1] = payload end
      if filled == 30 then
        call('HSET', record, unpack(fields))
        filled = 0
      end
    end
    jobs, room = jobs or got, count < pops and 0 or room - count
    if room > 0 then pops = math.max(1, math.min(room, 64, math.floor(left * #jobs / (limit - left)))) end -- of the size of those before
  until room == 0 or left <= 0
  if filled > 0 then call('HSET', record, unpack(fields, 1, filled)) end
  for from = done + 30, most, 30 do remove(from) end
end

local broken = jobs.err and {KEYS[8], jobs.err}
if broken then jobs = {} end
--@told
