-- take.lua where the lanes that are asked for are of one set, and each is under no limit, under one of its own, or all are under the same one.
-- The limits have the same numbers. It does the same by a shorter way: of limits that lanes share in parts take.lua has to keep what it plans.
--
-- KEYS  as take.lua until the slots to free, then limits   then turns   the lanes' lists   queue
-- ARGV  as take.lua until the slots to free, but that the byte limit is one number; then 'slots' or 'rate', the name of the numbers, the
--       number here or ''; how many limits there are; '1' if all lanes are under the first one, else each is under that of its place, if it has
--       one; how many lanes, how many bytes of their lists' names stand before a lane's own, what stands before and behind the own in the
--       in-flight record; how many lanes to show, '1' to say the turn of each, and how many of the queue's jobs to return
-- Returns what take.lua does, but how many jobs are in the queue without a list around it, and so the lanes, or nil if each that was asked for
--       has given a job, has some left, and there are no others: then the turn of each is the number of its last job behind now; and
--       of the jobs only payloads, one of each lane in turn, and, if several lanes are asked for, how many jobs of each there are, as a text behind them.
--@taking

local want, idle, left, slots = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), arg() == 'slots'
local chunk = ARGV[7] == '0' and 1 or max(1, min(64, floor(left / ARGV[7])))
local name, mine, count = arg(), arg(), number()
local limits, measure, burst = {}, nil, nil
if count > 0 then measure, burst = readNumbers(name, slots, mine) end
local function starts(l, spare) -- how many jobs the limit lets start where it has to have room for so many more
  if usedUp(l) then return 0 end
  if slots then return max(0, floor(l.room - spare)) end
  return measure > 0 and max(0, floor((l.slack + now - l.next) / measure - spare + 1)) or want
end
for i = 1, count do
  local used, ok = try(after + i, slots and 'SCARD' or 'GET')
  local l = {used = 0}
  if slots then l.room = ok and measure - used or 0 else l.next, l.slack, l.moved = pace(used, ok, measure, burst) end
  l.most, l.ahead = starts(l, 0), starts(l, want)
  limits[i] = l
end
local one, many, before, head, tail, turns, lanes = arg() == '1', number(), number() + 1, arg(), arg(), after + count + 1, {}
counts[turns] = try(turns, 'ZCARD')
if counts[turns] and not closed then
  for i = 1, many do
    local size = try(turns + i, 'LLEN')
    if size then
      lanes[#lanes + 1] = {at = i, own = sub(KEYS[turns + i], before), size = size, given = 0, limit = limits[one and 1 or i], prefix = false, turn = 0, jobs = false}
    end
  end
end
local missing = settle()

-- The lanes give one job each in turn, but here each gives all that it gives in a stretch at once. A stretch is a number of jobs of which
-- nothing is to be decided between two of them.
local taken, fields = {unpack(ARGV, tickets + 1, tickets + want)}, {unpack(ARGV, tickets + 1, tickets + 2 * want)} -- with room for all
local got, largest, shared, live, served = 0, 1, one and limits[1], lanes, 0
while got < want and left > 0 do
  local some, most, ahead, of = {}, want, want, #live -- lanes that give jobs, and how many each of them can give, now or ahead
  for i = served + 1, served + of do
    local lane = live[i <= of and i or i - of]
    local now, later, limit = lane.size, lane.size, not one and lane.limit
    if limit then now, later = min(now, limit.most - limit.used), min(later, limit.ahead - limit.used) end
    if got >= idle then now = later end
    if now > 0 then
      some[#some + 1] = lane
      if now < most then most = now end
      if later < ahead then ahead = later end
    end
  end
  local width, rest = #some, want - got
  most, ahead = most * width, ahead * width
  if shared then most, ahead = min(most, shared.most - shared.used), min(ahead, shared.ahead - shared.used) end
  if got >= idle then rest = min(rest, ahead) elseif ahead < rest then rest = min(idle - got, most) end
  if rest > chunk then rest = chunk end
  if rest <= 0 then break end
  live, served = some, rest % width
  local each, last, gives = floor(rest / width), min(width, rest), 0
  for i = 1, last do
    local lane, n = some[i], i <= served and each + 1 or each
    local list = try(turns + lane.at, 'LPOP', written(n))
    lane.jobs = list
    if list then
      gives, lane.size = gives + 1, lane.size - n
      if lane.limit then lane.limit.used = lane.limit.used + n end
    else lane.size = -1 end -- Redis refuses it
  end
  local first = got
  for i = 1, last do
    local lane = some[i]
    local list, limit, prefix, holders = lane.jobs, lane.limit, lane.prefix, nil
    if list then
      first = first + 1
      if not prefix then
        prefix = head .. written(#lane.own) .. ':' .. lane.own .. tail
        lane.prefix = prefix
      end
      if slots then
        holders = limit.holders or {}
        limit.holders = holders
      end
      local at = first
      for n = 1, #list do
        local payload, ticket = list[n], ARGV[tickets + at]
        local size = #payload
        taken[at], fields[2 * at - 1], fields[2 * at], left = payload, ticket, prefix .. payload, left - size
        if size > largest then largest = size end
        if holders then holders[#holders + 1] = me .. ticket end
        at = at + gives
      end
      lane.given, lane.turn, got = lane.given + #list, at - gives, got + #list
    end
  end
  chunk = max(1, min(rest == chunk and chunk * 8 or chunk, 64, floor(left / largest)))
end
for i = got + 1, want do taken[i] = nil end

local gone, set, gave = {}, {}, {}
for i = 1, #lanes do
  local lane = lanes[i]
  gave[lane.at] = lane.given
  if lane.size == 0 then gone[#gone + 1] = lane.own
  elseif lane.given > 0 then set[#set + 1], set[#set + 2] = written(now + lane.turn), lane.own end
end
if #gone > 0 then counts[turns] = counts[turns] - call('ZREM', KEYS[turns], unpack(gone)) end
if #set > 0 then counts[turns] = counts[turns] + call('ZADD', KEYS[turns], unpack(set)) end
for i = 1, count do
  local l = limits[i]
  if l.holders then call('SADD', KEYS[after + i], unpack(l.holders)) end
  if slots then l.room = l.room - l.used else l.next = l.next + l.used * measure end
  if l.moved or not slots and l.used > 0 then moveOn(KEYS[after + i], l.next) end
  if (l.room or 0) < 1 and usedUp(l) then full[#full + 1], full[#full + 2] = i, untilWhen(l) end
end
if got > 0 then
  call('HSET', record, unpack(fields, 1, 2 * got))
  if many > 1 then
    for i = 1, many do gave[i] = written(gave[i] or 0) end
    taken[got + 1] = table.concat(gave, ' ')
  end
end
--@taken
local most, each, queue = number(), arg() == '1', turns + many + 1
local shown = not (2 * many == #set and many == counts[turns] and many <= most) and show(turns, most, each)
local waiting = try(queue, 'LLEN') or 0
return answer(shown, waiting, queue, waiting, number())
