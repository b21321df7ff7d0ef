-- The first part of take.lua and takeown.lua: it proves the process, reads the clock, and has what both do with limits.
local record, process = KEYS[1], KEYS[2]
local lease = redis.call('ZSCORE', KEYS[3], ARGV[1])
local fenced = not lease or string.byte(lease) == 45 -- '-'
local epoch = redis.call('HGET', process, 'epoch')
local rare = redis.pcall('EXISTS', KEYS[4], KEYS[5], KEYS[6]) ~= 0
local reaped = rare and redis.call('EXISTS', KEYS[4]) == 1
if epoch ~= ARGV[2] then return {reaped and 'reaped' or epoch and 'stale' or 'gone'} end

local at, errors = 7, {}
--@turn
local acks = number()
local done = at + 1
at = at + acks
local tickets = at
at = at + ARGV[4]

local byte, me, frees, from = string.byte, ARGV[1] .. '/', arg(), tickets
local after = 9 + #frees / 2 -- the last key of slots to free
if reaped and after > 9 then return {'again'} end
if after > 9 then redis.call('HLEN', record) end -- if it is no hash, this ends the script before it writes
for i = 1, #frees, 2 do from = from - 256 * byte(frees, i) - byte(frees, i + 1) end
for key = 10, after do
  local holders, high, low = {}, byte(frees, 2 * key - 19, 2 * key - 18)
  for n = 1, 256 * high + low do holders[n] = me .. ARGV[from + n] end
  from = from + #holders
  if type(guarded('SREM', KEYS[key], unpack(holders))) == 'table' then return {'again'} end
end
local function text(number) return string.format('%d', number) end -- '%.0f' costs many times as much
local digits, heads = {[0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}, {[0] = ''}
local function written(n) -- Lua and Redis are slow at writing numbers
  local unit = n % 10
  local tens = (n - unit) / 10
  local head = heads[tens]
  if not head then
    head = text(tens)
    heads[tens] = head
  end
  return head .. digits[unit]
end
local time = redis.call('TIME')
local ahead, last = string.match(try(8, 'GET') or '', '^(%d+) (%d+)$')
ahead, last = tonumber(ahead or 0), tonumber(last or 0)
local now = time[1] * 1000000 + time[2] + ahead
if now < last then ahead, now = ahead + last - now, last end

local sub, floor, min, max, call = string.sub, math.floor, math.min, math.max, redis.call
local early, lost, numbers, counts = 5000, {}, {}, {} -- counts: of lanes, by the key of their turns
local function readNumbers(name, slots, own) -- once for all keys
  if numbers[name] then return unpack(numbers[name]) end
  local said = try(7, 'HGET', name)
  if not said and own ~= '' then
    said = own
    lost[#lost + 1], lost[#lost + 2] = name, own
  end
  local n, burst = string.match(said or '', '^([%d.]+) ?(%d*)$')
  n, burst = tonumber(n), tonumber(burst)
  if not n and said then errors[#errors + 1], errors[#errors + 2] = KEYS[7], name .. ' is "' .. said .. '", which is no number: '
    .. (slots and 'one job runs at a time' or 'one job is started each second') .. ' until it is one' end
  if not n then n, burst = slots and 1 or 1000000, nil end
  numbers[name] = {n, burst}
  return n, burst
end
local function pace(due, ok, every, burst) -- of a rate: when its next start is due, how early it may come, and whether the rate was slower before
  local slack = ok and max(every * ((burst or 1) - 1), min(every, early)) or -1
  local most = now + slack + every
  due = tonumber(due or '') or 0
  return max(min(due, most), now), slack, due > most
end
local function usedUp(l) return l.room and l.room < 1 or l.next and l.next - now > l.slack end
local function nextLook(l) return l.next - l.slack + min(l.slack / 2, early) end
local removed
local function settle() -- the first writes; returns how many of the done tickets were not in the record
  local missing = acks - call('HDEL', record, '', unpack(ARGV, done, done + acks - 1))
  removed = (missing > 0 or acks == 0) and call('HEXISTS', record, 'entered') == 0
  local counted = reaped and acks - missing or acks
  if counted > 0 then try(9, 'INCRBY', written(counted)) end
  for i = 1, #lost, 2 do guarded('HSETNX', KEYS[7], lost[i], lost[i + 1]) end
  if now - last >= 1000000 or now == last then call('SET', KEYS[8], text(ahead) .. ' ' .. text(now)) end
  return missing
end
local function moveOn(key, next) call('SET', key, string.format('%.2f', next), 'EX', written(math.ceil((next - now) / 1000000) + 1)) end
local function untilWhen(l) return l.room and '0' or string.format('%.0f', nextLook(l)) end
local full = {} -- limits that are used up, and until when
local paused = rare and try(5, 'GET')
paused = paused and string.match(string.lower(paused), '^%s*true%s*$')
local closed = paused or fenced
