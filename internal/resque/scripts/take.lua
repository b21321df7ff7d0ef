-- Takes jobs from lanes, as many as their limits allow, one from each lane in turn, and
-- returns which lanes are next. Jobs for which no worker is idle are taken ahead only where
-- their limits have room for all that are wanted: a slot that waits must not be missed elsewhere. As in an exchange it writes each job under its ticket into
-- the in-flight record in the same step.
--
-- KEYS  1 in-flight record   2 process record   3 processes   4 tombstone
--       5 pause-all-workers   6 recovered   7 limits   8 clock   9 stat:processed   then those of slots to free   then keys in any order
-- ARGV  process, epoch, last ticket, wanted, how many of these for idle workers, byte limit, how long jobs of this queue are as far as the
--       process has seen or 0; how many jobs are done without effects where no exchange.lua comes before, and their tickets; the next tickets,
--       as many as are wanted; for each key of slots two bytes, the higher one first, how many of the done tickets, the last ones, free theirs;
--       then four groups, each led by its count:
--       limits: 'slots', 'rate' or 'wait', their name among the limits, their number here or '', the first key, how many keys
--       lanes: key of the turns, the first list, how many lists, how many bytes of their names stand before a lane's own, its name
--         there; what stands before and behind the own in the in-flight record; and for each lane a byte, how many limits it
--         has, and two for each limit, the higher one first: which
--       turns: key, how many lanes to show, '1' to say the turn of each   |   queue: key
--       and how many jobs of the first queue to return. Where the byte limit is two numbers, the second one is of parts/apart.lua
-- Returns {'ok', flags as an exchange's, now, {lane, payload, lane, payload… by ticket},
--       {limit that is used up, until when or 0…},
--       {{how many lanes, {name, turn…}} or {how many lanes, {name of each whose turn has come…}, the first one's turn, the next one's or ''}…},
--       {jobs in the queue…}, {key, error…}, {job at the first queue's head…}, done tickets that were not in the record}
--       or {'stale'|'gone'|'reaped'}. Times are in µs. {'again'}: the end of a job cannot be done alone; exchange.lua is to do all ends,
--       and then take.lua the rest. Nothing is done then, but that slots of done jobs may be free.
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
-- Nothing is written before the lease and the epoch are proven, and nothing but slots before all keys are read. Redis allows
-- an SREM or an HDEL as the first write when out of memory.
--@taking

local function existing(first, past, most, of) -- calls of with stretches of keys, and how many of these there are
  for from = first, past - 1, most do
    local to = min(from + most, past) - 1
    of(from, to, redis.call('EXISTS', unpack(KEYS, from, to)))
  end
end
local limits, waits = {}, false -- of a limit by which no job runs, only what it has in common with others
local function readLimits()
  local kind, name, own, first, count = arg(), arg(), arg(), number(), number()
  local slots = kind == 'slots'
  local n, burst = readNumbers(name, slots, own)
  local none = slots and {none = true, kind = kind, room = n, key = first - #limits - 1}
  waits = waits or kind == 'wait'
  local function read(from, to, some)
    if slots and some == 0 then
      for at = #limits + 1, #limits + to - from + 1 do limits[at] = none end
      return
    end
    for key = from, to do
      local l, used, ok = {kind = kind, key = key, uses = 0}, slots and 0, true
      if some > 0 then used, ok = try(key, slots and 'SCARD' or 'GET') end
      if slots then
        l.room = ok and n - used or 0
      else
        l.every = n
        l.next, l.slack, l.moved = pace(used, ok, n, burst)
      end
      limits[#limits + 1] = l
    end
  end
  if count == 1 then read(first, first, 1) else existing(first, first + count, 16, read) end -- of most keys no job runs
end
local function limit(at)
  local l = limits[at]
  if l.none then
    l = {kind = l.kind, key = l.key + at, room = l.room, uses = 0}
    limits[at] = l
  end
  return l
end
local want, idle, asked, sets = tonumber(ARGV[4]), tonumber(ARGV[5]), {}, {}
local function readSet()
  local set = {turns = number(), first = number(), many = number(), before = number() + 1, head = arg(), tail = arg(), places = arg(), gone = {}, set = {}}
  set.known = try(set.turns, 'ZCARD')
  counts[set.turns] = set.known
  sets[#sets + 1] = set
end
local function readLanes(set)
  local first, many, before, places, spot = set.first, set.many, set.before, set.places, 1
  local function read(list, size) -- size: nil where Redis refuses the list
    local name = string.sub(KEYS[list], before)
    local lane, held = {at = #asked + 1, list = list, set = set, name = name, size = set.known and size, planned = 0}, {}
    for n = 1, byte(places, spot) do
      local high, low = byte(places, spot + 2 * n - 1, spot + 2 * n)
      held[n] = limit(256 * high + low)
    end
    spot = spot + 1 + 2 * #held -- by itself: the embedded server confuses it with the others of one assignment
    lane.held, asked[lane.at] = held, lane
    return lane
  end
  if many < want then
    for list = first, first + many - 1 do read(list, try(list, 'LLEN')) end
    return
  end
  existing(first, first + many, 50, function(from, to, some) -- one job of each may do: all have one, as far as is known
    for list = from, to do
      if some > to - from then read(list, 1).guessed = true else read(list, try(list, 'LLEN')) end
    end
  end)
end
local function obstacle(lane)
  local held = lane.held
  for i = 1, #held do if usedUp(held[i]) then return held[i] end end
end
local function ample(lane)
  local held = lane.held
  for i = 1, #held do
    local l = held[i]
    if l.room and l.room <= want or l.next and l.next + want * l.every - now > l.slack then return false end
  end
  return true
end
local function use(l, n) -- starts n jobs, or gives back
  if l.room then l.room = l.room - n else l.next, l.moved = l.next + n * l.every, true end
end
local left, turn, order, planned, popped = tonumber(ARGV[6]), now, {}, 0, 0
local fields, taken, count, largest = {}, {}, 0, 1
local least, apart, payloads
if not left then
  local limit = ARGV[6]
--@apart
end
local chunk = ARGV[7] == '0' and 1 or max(1, min(64, floor(left / ARGV[7])))
local function plan(lane) -- one more job of a lane
  planned, turn = planned + 1, turn + 1
  order[planned], lane.size, lane.planned, lane.turn = lane, lane.size - 1, lane.planned + 1, turn
  for i = 1, #lane.held do use(lane.held[i], 1) end
end
local function rounds(live) -- how many jobs each of these lanes can certainly give
  local most = min((planned < idle and idle or want) - planned, chunk - planned + popped)
  local k, spare = floor(most / #live), planned < idle and 0 or want
  if k < 1 then return 0 end
  for i = 1, #live do
    local held = live[i].held
    k = min(k, live[i].size)
    for n = 1, #held do held[n].uses = held[n].uses + 1 end
  end
  for i = 1, #live do
    local held = live[i].held
    for n = 1, #held do
      local l, uses = held[n], held[n].uses
      if l.room then k = min(k, floor((l.room - spare) / uses))
      elseif l.every > 0 then k = min(k, floor(((l.slack + now - l.next) / l.every - spare + 1) / uses)) end
    end
  end
  for i = 1, #live do
    for n = 1, #live[i].held do live[i].held[n].uses = 0 end
  end
  return k
end
local function planAll(live, k) -- so many jobs of each lane
  for _ = 1, k do
    for i = 1, #live do order[planned + i] = live[i] end
    planned = planned + #live
  end
  for i = 1, #live do
    local lane = live[i]
    turn = turn + 1
    lane.size, lane.planned, lane.turn = lane.size - k, lane.planned + k, turn
    for n = 1, #lane.held do use(lane.held[n], k) end
  end
end
local function prefix(lane)
  lane.prefix = lane.set.head .. written(#lane.name) .. ':' .. lane.name .. lane.set.tail
  return lane.prefix
end
local function pop() -- what is planned, with one call for a lane
  for i = popped + 1, planned do
    local lane = order[i]
    if lane.planned > 0 then lane.jobs, lane.given, lane.planned = try(lane.list, 'LPOP', text(lane.planned)) or {}, 0, 0 end
    local given, held = lane.given + 1, lane.held
    local payload = lane.jobs[given]
    lane.given = given
    if payload then
      local size = #payload
      count, left = count + 2, left - size
      if size > largest then largest = size end
      local name = ARGV[tickets + count / 2]
      taken[count - 1], taken[count] = lane.at, payload
      local before = lane.prefix or prefix(lane)
      fields[count - 1], fields[count] = name, least and apart(name, before, payload) or before .. payload
      for n = 1, #held do
        local l = held[n]
        if l.room then
          if not l.holders then l.holders = {me .. name} else l.holders[#l.holders + 1] = me .. name end
        end
      end
    else -- it is no list
      for n = 1, #held do use(held[n], -1) end
    end
  end
  popped, chunk = planned, max(1, min(chunk * 8, 64, floor(left / largest)))
end

local function spreads() -- whether one job of each lane is enough, and no limit of them is near: then nothing needs to be planned
  local set = sets[1]
  if #sets ~= 1 or not set.known or set.many < want then return false end
  for at = 1, #limits do
    if not limits[at].room or limits[at].room <= 2 * want then return false end
  end
  local all = true
  existing(set.first, set.first + set.many, 50, function(from, to, some) all = all and some > to - from end)
  return all
end
local holders = {} -- by limit, where jobs are spread: who has got a slot, a name or a list
local function spread(set) -- pops the first job of each lane
  local first, before, head, tail, places, spot, gone, names, lanes = set.first, set.before, set.head, set.tail, set.places, 1, set.gone, {}, 0
  while lanes < set.many and count < 2 * want and left > 0 do
    local payload, of = try(first + lanes, 'LPOP'), byte(places, spot)
    local own = sub(KEYS[first + lanes], before)
    lanes = lanes + 1
    names[lanes] = own
    if payload then
      count, left = count + 2, left - #payload
      local name = ARGV[tickets + count / 2]
      taken[count - 1], taken[count] = lanes, payload
      local lead = head .. written(#own) .. ':' .. own .. tail
      fields[count - 1], fields[count] = name, least and apart(name, lead, payload) or lead .. payload
      for n = spot + 1, spot + 2 * of, 2 do
        local high, low = byte(places, n, n + 1)
        local at = 256 * high + low
        local has = holders[at]
        if not has then holders[at] = me .. name
        elseif type(has) == 'table' then has[#has + 1] = me .. name
        else holders[at] = {has, me .. name} end
      end
    end
    spot = spot + 1 + 2 * of
  end
  existing(first, first + lanes, 50, function(from, to, some) -- most are empty now
    for list = from, to do
      local name = names[list - first + 1]
      if some == 0 or call('EXISTS', KEYS[list]) == 0 then gone[#gone + 1] = name
      else set.set[#set.set + 1], set.set[#set.set + 2] = written(math.ceil(now) + list - first + 1), name end
    end
  end)
end

for i = 1, number() do readLimits() end
for i = 1, number() do readSet() end
local spreading = not closed and spreads()
for i = 1, closed and 0 or #sets do
  if not spreading then readLanes(sets[i]) end
end
local missing = settle()
if spreading then spread(sets[1]) end
local live = {}
local function round(lanes) -- one job of each, where its limits allow it
  live = {}
  for i = 1, #lanes do
    local lane = lanes[i]
    if planned >= want or left <= 0 then return end
    if (lane.size or 0) > 0 and not obstacle(lane) and (planned < idle or ample(lane)) then
      plan(lane)
      live[#live + 1] = lane
      if planned - popped >= chunk then pop() end
    end
  end
end
round(asked)
while #live > 0 and planned < want and left > 0 do
  local more = {}
  for i = 1, #live do
    local lane = live[i]
    if lane.guessed then lane.guessed, lane.size = nil, (try(lane.list, 'LLEN') or 0) - lane.planned end
    if lane.size > 0 then more[#more + 1] = lane end
  end
  live = more
  local k = #live > 0 and rounds(live) or 0
  if k > 0 then planAll(live, k) else round(live) end
  if planned - popped >= chunk then pop() end
end
pop()
local guessed = {}
for i = 1, #asked do if asked[i].guessed and asked[i].turn then guessed[#guessed + 1] = asked[i] end end
for i = 1, #guessed, 50 do -- most are empty now
  local keys, last = {}, min(i + 49, #guessed)
  for n = i, last do keys[#keys + 1] = KEYS[guessed[n].list] end
  local some = redis.call('EXISTS', unpack(keys))
  for n = i, last do guessed[n].size = some > 0 and redis.call('EXISTS', KEYS[guessed[n].list]) or 0 end
end
for i = 1, #asked do
  local lane, set = asked[i], asked[i].set
  local l = waits and (lane.size or 0) > 0 and obstacle(lane)
  if l and l.kind == 'wait' then lane.turn = min(nextLook(l), now + 60000000) end
  if lane.size == 0 then set.gone[#set.gone + 1] = lane.name
  elseif lane.turn then set.set[#set.set + 1], set.set[#set.set + 2] = written(math.ceil(lane.turn)), lane.name end
end
for i = 1, #sets do
  local set = sets[i]
  local turns = set.turns
  if #set.gone > 0 then counts[turns] = counts[turns] - redis.call('ZREM', KEYS[turns], unpack(set.gone)) end
  if #set.set > 0 then counts[turns] = counts[turns] + redis.call('ZADD', KEYS[turns], unpack(set.set)) end
end
for at, has in pairs(holders) do
  local l = limits[at]
  local key = KEYS[l.none and l.key + at or l.key]
  if type(has) == 'table' then call('SADD', key, unpack(has)) else call('SADD', key, has) end
end
for i = 1, #limits do
  local l = limits[i]
  if l.holders then redis.call('SADD', KEYS[l.key], unpack(l.holders)) end
  if l.moved then moveOn(KEYS[l.key], l.next) end
end
if count > 0 then redis.call('HSET', record, unpack(fields)) end
if least then payloads() end

for i = 1, #limits do
  local l = limits[i]
  if (l.room or 0) < 1 and usedUp(l) then full[#full + 1], full[#full + 2] = i, untilWhen(l) end
end
--@taken
local shown, waiting, queue = {}, {}, nil
for i = 1, number() do shown[i] = show(number(), number(), arg() == '1') end
for i = 1, number() do
  local key = number()
  waiting[i], queue = try(key, 'LLEN') or 0, queue or key
end
return answer(#shown > 0 and shown, #waiting > 0 and waiting, queue, waiting[1], number())
