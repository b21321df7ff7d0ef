-- Takes jobs from lanes, as many as their limits allow, one from each lane in turn, and
-- returns which lanes are next. Jobs for which no worker is idle are taken ahead only where
-- their limits have room for all that are wanted: a slot that waits must not be missed elsewhere. As in an exchange it writes each job under its ticket into
-- the in-flight record in the same step.
--
-- KEYS  1 in-flight record   2 process record   3 processes   4 tombstone
--       5 pause-all-workers   6 recovered   7 limits   8 clock   then keys in any order
-- ARGV  process, epoch, last ticket, wanted, how many of these for idle workers, byte limit, then
--       four groups, each led by its count:
--       limit: 'slots', 'rate' or 'wait', key, its name among the limits, its number here or ''
--       lane: list, key of the turns, its name there, prefix, how many limits, which
--       turns: key, how many lanes to show   |   queue: key
-- Returns {'ok', flags as an exchange's, now, {lane, payload, lane, payload… by ticket},
--       {limit that is used up, until when or 0…}, {{how many lanes, {name, turn…}}…},
--       {jobs in the queue…}, {key, error…}} or {'stale'|'gone'|'reaped'}. Times are in µs.
--
-- A lane's turn is when it was last taken from or got its first job: the lane served longest
-- ago is next. 'wait' is a rate of one lane only. It puts off the lane's turn until there is a
-- token, at most a minute because its numbers may change. A rate stores when the next start is
-- due. A start may be 5 ms early, which makes up for late ones. The turn of a lane that waits
-- is in the middle of that time or of a burst, so that it is not woken for each token.
--
-- If Redis has lost a limit's number, the process's number applies and is written back. Without
-- one, or if the text is no number, the limit is 1: one at a time, one a second.
--
-- Time is Redis's but never goes back: the clock holds the offset to add, and the time of at
-- most a second ago.
--
-- Nothing is written before the record, the lease and the epoch are proven and all
-- keys are read. Redis allows an HDEL as the first write when out of memory.
local record, process = KEYS[1], KEYS[2]
redis.call('HLEN', record)
local fenced = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or '-1') < 0
local epoch = redis.call('HGET', process, 'epoch')
if epoch ~= ARGV[2] then
  return {redis.call('EXISTS', KEYS[4]) == 1 and 'reaped' or epoch and 'stale' or 'gone'}
end

local at, errors = 6, {}
--@turn
local function text(number) return string.format('%.0f', number) end
local time = redis.call('TIME')
local ahead, last = string.match(try(8, 'GET') or '', '^(%d+) (%d+)$')
ahead, last = tonumber(ahead or 0), tonumber(last or 0)
local now = time[1] * 1000000 + time[2] + ahead
if now < last then ahead, now = ahead + last - now, last end

local early, lost, numbers = 5000, {}, {}
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
local function readLimit()
  local l = {kind = arg(), key = number(), holders = {}}
  local n, burst = readNumbers(arg(), l.kind == 'slots', arg())
  local used, ok = try(l.key, l.kind == 'slots' and 'SCARD' or 'GET')
  if l.kind == 'slots' then
    l.room = ok and n - used or 0
  else
    l.every = n
    l.slack = ok and math.max(l.every * ((burst or 1) - 1), math.min(l.every, early)) or -1
    local due, most = tonumber(used or '') or 0, now + l.slack + l.every
    l.next, l.moved = math.max(math.min(due, most), now), due > most -- the rate was slower before
  end
  return l
end
local asked, turns = {}, {} -- turns by their key: the lanes there, and what is written of them
local function readLane(i, limits)
  local lane = {at = i, list = number(), turns = number(), name = arg(), prefix = arg(), limits = {}, planned = 0}
  for n = 1, number() do lane.limits[n] = limits[number()] end
  lane.size = try(lane.list, 'LLEN')
  local of = turns[lane.turns] or {key = lane.turns, lanes = {}, names = {}, gone = {}, set = {}}
  local n = #of.names + 1
  asked[i], turns[lane.turns], of.lanes[n], of.names[n] = lane, of, lane, lane.name
end
local function usedUp(l) return l.room and l.room < 1 or l.next and l.next - now > l.slack end
local function nextLook(l) return l.next - l.slack + math.min(l.slack / 2, early) end
local function obstacle(lane)
  for _, l in ipairs(lane.limits) do if usedUp(l) then return l end end
end
local want, idle = tonumber(ARGV[4]), tonumber(ARGV[5])
local function ample(lane)
  for _, l in ipairs(lane.limits) do
    if l.room and l.room <= want or l.next and l.next + want * l.every - now > l.slack then return false end
  end
  return true
end
local ticket, left, turn, fields, taken, order, largest, planned = tonumber(ARGV[3]), tonumber(ARGV[6]), now, {}, {}, {}, 1, 0
local digits, heads = {[0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}, {[0] = ''}
local function written(n) -- Lua and Redis are slow at writing numbers
  local unit = n % 10
  local tens = (n - unit) / 10
  heads[tens] = heads[tens] or text(tens)
  return heads[tens] .. digits[unit]
end
local function plan(lane) -- one more job of a lane
  lane.size, lane.planned, turn, planned = lane.size - 1, lane.planned + 1, turn + 1, planned + 1
  lane.turn, order[#order + 1] = turn, lane
  for _, l in ipairs(lane.limits) do
    if l.room then l.room = l.room - 1 else l.next, l.moved = l.next + l.every, true end
  end
end
local function pop() -- what is planned, with one call for a lane
  for i = #order - planned + 1, #order do
    local lane = order[i]
    if lane.planned > 0 then lane.jobs, lane.popped, lane.planned = redis.call('LPOP', KEYS[lane.list], lane.planned), 0, 0 end
    lane.popped, ticket = lane.popped + 1, ticket + 1
    local payload, name = lane.jobs[lane.popped], written(ticket)
    left, largest = left - #payload, math.max(largest, #payload)
    taken[2 * i - 1], taken[2 * i] = lane.at, payload
    fields[2 * i - 1], fields[2 * i] = name, lane.prefix .. payload
    for _, l in ipairs(lane.limits) do
      if l.room then l.holders[#l.holders + 1] = ARGV[1] .. '/' .. name end
    end
  end
  planned = 0
end

local limits, lanes = {}, {}
for i = 1, number() do limits[i] = readLimit() end
for i = 1, number() do readLane(i, limits) end
for _, of in pairs(turns) do
  local scores = try(of.key, 'ZMSCORE', unpack(of.names)) or {}
  for i, lane in ipairs(of.lanes) do lane.there = lane.size and scores[i] end
end
for _, lane in ipairs(asked) do if lane.there then lanes[#lanes + 1] = lane end end
local paused = try(5, 'GET')
paused = paused and string.match(string.lower(paused), '^%s*true%s*$')
if paused or fenced then lanes = {} end
redis.call('HDEL', record, '')
for i = 1, #lost, 2 do redis.pcall('HSETNX', KEYS[7], lost[i], lost[i + 1]) end
if now - last >= 1000000 or now == last then redis.call('SET', KEYS[8], text(ahead) .. ' ' .. text(now)) end
local live, chunk = lanes, 1
while #live > 0 do
  local again = {}
  for _, lane in ipairs(live) do
    local l = lane.size > 0 and obstacle(lane)
    if l then
      if l.kind == 'wait' then lane.turn = math.min(nextLook(l), now + 60000000) end
    elseif lane.size > 0 and left > 0 and #order < want and (#order < idle or ample(lane)) then
      plan(lane)
      again[#again + 1] = lane
      if planned >= chunk then
        pop()
        chunk = math.max(1, math.min(chunk * 8, 64, math.floor(left / largest)))
      end
    end
  end
  live = again
end
pop()
for _, lane in ipairs(lanes) do
  local of = turns[lane.turns]
  if lane.size == 0 then of.gone[#of.gone + 1] = lane.name
  elseif lane.turn then of.set[#of.set + 1], of.set[#of.set + 2] = math.ceil(lane.turn), lane.name end
end
for _, of in pairs(turns) do
  if #of.gone > 0 then redis.call('ZREM', KEYS[of.key], unpack(of.gone)) end
  if #of.set > 0 then redis.call('ZADD', KEYS[of.key], unpack(of.set)) end
end
for _, l in ipairs(limits) do
  if #l.holders > 0 then redis.call('SADD', KEYS[l.key], unpack(l.holders)) end
  if l.moved then redis.call('SET', KEYS[l.key], string.format('%.2f', l.next), 'EX', math.ceil((l.next - now) / 1000000) + 1) end
end
if #fields > 0 then redis.call('HSET', record, unpack(fields)) end

local full, shown, waiting = {}, {}, {}
for i, l in ipairs(limits) do
  if usedUp(l) then full[#full + 1], full[#full + 2] = i, l.room and '0' or text(nextLook(l)) end
end
for i = 1, number() do
  local key, most = number(), number()
  shown[i] = {try(key, 'ZCARD') or 0, try(key, 'ZRANGE', 0, most - 1, 'WITHSCORES') or {}}
end
for i = 1, number() do waiting[i] = try(number(), 'LLEN') or 0 end
local flags = (paused and 'p' or '') .. (fenced and 'f' or '')
if #taken > 0 and redis.call('EXISTS', KEYS[6]) == 1 then flags = flags .. 's' end
return {'ok', flags, text(now), taken, full, shown, waiting, errors}
