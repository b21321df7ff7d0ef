-- An exchange in its usual form: jobs that are done without effects, and one queue. It does what exchange.lua does, by a
-- shorter way. Where anything is unusual it writes nothing and answers nil, and exchange.lua follows.
--
-- KEYS  1 in-flight record   2 process record   3 processes   4 tombstone   5 stat:processed
--       6 pause-all-workers   7 recovered   8 queue
-- ARGV  process, epoch, prefix, wanted, the next tickets, as many as are wanted and two at least, then the tickets that are done,
--       one at least
-- Returns {payload…}, and behind them, if there is more to say: how many of the tickets were not in the record, below zero if the
--       record was removed; then key, error…
--
-- Redis uses the objects of a command's first 32 arguments again, so commands for many tickets go in pieces. All tickets but
-- the first ones are removed last, so that the table of the record does not shrink and grow each time.
local call, try, argv, most, record = redis.call, redis.pcall, ARGV, #ARGV, KEYS[1]
local lease = call('ZSCORE', KEYS[3], argv[1])
if not lease or string.byte(lease) == 45 -- '-'
  or call('HGET', KEYS[2], 'epoch') ~= argv[2] or try('EXISTS', KEYS[4], KEYS[6], KEYS[7]) ~= 0 then return end

local prefix, wanted, missing, counted, jobs = argv[3], argv[4]
if wanted == '1' or wanted == '2' then
  local acks = most - 6
  missing = acks - call('HDEL', record, unpack(argv, 7))
  counted = try('INCRBY', KEYS[5], acks == 1 and '1' or acks == 2 and '2' or string.format('%d', acks))
  jobs = try('LPOP', KEYS[8], wanted) or {}
  local first, second = jobs[1], jobs[2]
  if second then call('HSET', record, argv[5], prefix .. first, argv[6], prefix .. second)
  elseif first then call('HSET', record, argv[5], prefix .. first) end
else
  local room, next, left, fields, filled = tonumber(wanted), 5, 4194304, {}, 0 -- as MaxExchangeBytes
  local done = next + room
  missing = most - done + 1
  counted = missing
  local function remove(from) -- and 29 more
    local to = from + 29
    missing = missing - call('HDEL', record, unpack(argv, from, to < most and to or most))
  end
  remove(done)
  counted = try('INCRBY', KEYS[5], string.format('%d', counted))
  repeat
    local got = try('LPOP', KEYS[8], room > 64 and '64' or jobs and string.format('%d', room) or wanted) or {}
    for i = 1, #got do
      local payload = got[i]
      fields[filled + 1], fields[filled + 2] = argv[next], prefix .. payload
      next, filled, left = next + 1, filled + 2, left - #payload
      if jobs then jobs[#jobs + 1] = payload end
      if filled == 30 then
        call('HSET', record, unpack(fields))
        filled = 0
      end
    end
    jobs, room = jobs or got, #got < 64 and 0 or room - #got
  until room == 0 or left <= 0
  if filled > 0 then call('HSET', record, unpack(fields, 1, filled)) end
  for from = done + 30, most, 30 do remove(from) end
end

if missing > 0 or jobs.err or type(counted) == 'table' then
  local refused = jobs.err
  if refused then jobs = {} end
  jobs[#jobs + 1] = missing > 0 and call('HEXISTS', record, 'entered') == 0 and -missing or missing
  if type(counted) == 'table' then jobs[#jobs + 1] = KEYS[5]; jobs[#jobs + 1] = counted.err end
  if refused then jobs[#jobs + 1] = KEYS[8]; jobs[#jobs + 1] = refused end
end
return jobs
