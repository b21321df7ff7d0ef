-- Pushes jobs to the tails of queues, or puts them into our own schedule.
--
-- KEYS  1 schedule   then for each queue its list and the set that has its name
-- ARGV  for each row: number of the list in KEYS, name of the queue or '', how many jobs the list may have then or 0, for how
--       many ms the list stays or 0, how many payloads, the payloads. Or, with 0 as number: '', 0, 0, how many values, and
--       due in ms, member…
-- Returns {now in ms, then for each row that is refused: its number, key, error; or its number, '', length of the list
--       that would have too many}.
--
-- Atomic: the call. Each row is for itself: all of it is written or, if it is refused, nothing. A row that is refused holds
-- no other up.
local time, named = redis.call('TIME'), {}
local reply, row, at = {time[1] * 1000 + math.floor(time[2] / 1000)}, 0, 1
local function refused(key, answer)
  if type(answer) ~= 'table' or not answer.err then return false end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = row, key, answer.err
  return true
end
local function write(command, key, first, last) -- Redis refuses the first piece or none
  for from = first, last, 1000 do
    if refused(key, redis.pcall(command, key, unpack(ARGV, from, math.min(from + 999, last)))) then return end
  end
end
while at <= #ARGV do
  local list, name, most, n = tonumber(ARGV[at]), ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 4])
  local first, last = at + 5, at + 4 + n
  row = row + 1
  if list == 0 then write('ZADD', KEYS[1], first, last)
  else
    local length, set = redis.pcall('LLEN', KEYS[list]), KEYS[list + 1]
    if not refused(KEYS[list], length) then
      if most > 0 and length + n > most then
        local r = #reply
        reply[r + 1], reply[r + 2], reply[r + 3] = row, '', length
      elseif name == '' or named[list] or not refused(set, redis.pcall('SADD', set, name)) then
        named[list] = true
        write('RPUSH', KEYS[list], first, last)
        if ARGV[at + 3] ~= '0' then redis.call('PEXPIRE', KEYS[list], ARGV[at + 3]) end
      end
    end
  end
  at = last + 1
end
return reply
