-- take.lua where one lane is asked for that is under one limit, and the look is at its queue alone, as where all jobs of a queue are of one
-- class. It does the same by a shorter way: of a lane among others take.lua has to keep what it plans.
--
-- KEYS  as take.lua, then 10 the limit's   11 turns   12 list   13 queue
-- ARGV  as take.lua until the next tickets, but that the byte limit is one number; then 'slots' or 'rate', its name among the limits, its
--       number here or '', and of how many of the done tickets, the last ones, it frees the slots; the lane's name among the turns, and what
--       stands before its jobs in the in-flight record; then as take.lua: turns, queue, and how many of its jobs to return
-- Returns what take.lua does, but of each job only the payload; or {'again'}, having done nothing: then exchange.lua, which can refuse
--       the end of a single job, and take.lua do it.
--@taking

local want, idle, left, slots = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), arg() == 'slots'
local measure, burst = readNumbers(arg(), slots, arg())
local limit, used, ok = {}, try(10, slots and 'SCARD' or 'GET')
if slots then limit.room = ok and measure - used or 0 else limit.next, limit.slack, limit.moved = pace(used, ok, measure, burst) end
local freed, me = tonumber(arg()), ARGV[1] .. '/'
if freed > 0 and (reaped or not ok) then return {'again'} end
local name, prefix, size = arg(), arg(), false
counts[11] = try(11, 'ZCARD')
if counts[11] and not closed then size = try(12, 'LLEN') end
local missing = settle()
if freed > 0 then
  local holders = {}
  for i = 1, freed do holders[i] = me .. ARGV[done + acks - i] end
  limit.room = limit.room + call('SREM', KEYS[10], unpack(holders))
end

local function starts(spare) -- how many jobs the limit lets start where it has to have room for so many more
  if usedUp(limit) then return 0 end
  if slots then return max(0, floor(limit.room - spare)) end
  return measure > 0 and max(0, floor((limit.slack + now - limit.next) / measure - spare + 1)) or want
end
local taken = {}
local function take(n)
  if n > size then n = size end
  size = size - n
  if slots then limit.room = limit.room - n elseif n > 0 then limit.next, limit.moved = limit.next + n * measure, true end
  local largest, chunk = 1, ARGV[7] == '0' and 1 or max(1, min(64, floor(left / ARGV[7])))
  while n > 0 and left > 0 do
    if chunk > n then chunk = n end
    local got = try(12, 'LPOP', text(chunk))
    for i = 1, #got do
      local payload = got[i]
      taken[#taken + 1], left = payload, left - #payload
      if #payload > largest then largest = #payload end
    end
    n, chunk = n - chunk, max(1, min(chunk * 8, 64, floor(left / largest)))
  end
  size = size + n
  if slots then limit.room = limit.room + n elseif n > 0 then limit.next = limit.next - n * measure end
end
if size and size > 0 then
  take(min(idle, starts(0)))
  if #taken == idle and want > idle then take(min(want - idle, starts(want))) end
end
if size == 0 then counts[11] = counts[11] - call('ZREM', KEYS[11], name)
elseif #taken > 0 then counts[11] = counts[11] + call('ZADD', KEYS[11], text(now + 1), name) end
if #taken > 0 then
  local fields, holders = {}, {}
  for i = 1, #taken do
    local ticket = ARGV[tickets + i]
    fields[2 * i - 1], fields[2 * i] = ticket, prefix .. taken[i]
    if slots then holders[i] = me .. ticket end
  end
  if slots then call('SADD', KEYS[10], unpack(holders)) end
  call('HSET', record, unpack(fields))
end
if limit.moved then moveOn(KEYS[10], limit.next) end
if (limit.room or 0) < 1 and usedUp(limit) then full[1], full[2] = 1, untilWhen(limit) end
--@taken
