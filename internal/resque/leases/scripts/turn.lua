-- One turn of a server: ends jobs that clients acknowledged, and reserves jobs for the clients that wait, each for the
-- time that its client asked for.
--
-- KEYS  1 leases   2 leased   3 returned   4 served   5 pause-all-workers   6 paused   7 stat:processed   then the queues
-- ARGV  1 the turn's number   2 most jobs (≤ 1000)   3 most bytes   4 lease in ms of a job that no client gets
--       5 seed of ids, 16 characters   6 '1': arm the queues of which no more is to be had
--       7 how many queues   8 how many acks   9 how many texts; then the queues' names; the acks' places; the lease that
--       each ack names, or ''; the texts; for each ask: ttr in ms, how many jobs, how many queues, which
-- Returns {'stale'}: Redis has heard this turn or a later one. {'gone'}: served is not there. Else
--       {now in ms, jobs, {queue without more…}, {key, error…}, acks}
--       jobs  {ask, id, queue, payload…}. Ask 0: the job is expired. Ask -1: it is done, its ack came after it went back.
--             A queue below 0: the job's end has effects.
--       acks  {ack, what…} for each ack that ended no job. 'effects': a commit ends it. 'changed': the job has another
--             lease. 'back', 'done': the job went back, and is marked now, or was before. 'dead': it is filed. 'unknown'.
--
-- Atomic: the call. All our keys are read as their types before the first write. No job is dropped: one that is expired or
-- done is reserved as well, and a commit ends it.
--   place     '<length of the queue's name>:<queue><id>'
--   lease     when it ends, in ms, and half a ms more where the payload has one of the texts
--   returned  place → 'back', 'done' or 'dead', SHA-1 of the bytes that went back, when
--   served    open: no turn up to this number is done. turn: the last that was done. places: the last that reserved, then
--             '<lease> <place>' of each of its jobs, one a line
--@tail
local LEASES, LEASED, RETURNED, SERVED = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local queues, acks, texts = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local placeAt = 9 + queues -- the argument before the first place
local leaseAt = placeAt + acks
local textAt = leaseAt + acks
local askAt = textAt + texts

local heard = call('HMGET', SERVED, 'open', 'turn')
if not heard[1] then return {'gone'} end
if tonumber(ARGV[1]) <= math.max(tonumber(heard[1]), tonumber(heard[2] or 0)) then return {'stale'} end
call('ZCARD', LEASES)
call('HLEN', LEASED)
local went, time = call('HLEN', RETURNED) > 0, call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('HDEL', SERVED, '') -- Redis allows it when out of memory, and then all that follow

local errors, empty, other, done = {}, {}, {}, {}
local function try(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  errors[#errors + 1] = key; errors[#errors + 1] = reply.err
end
local function late(place)
  local was = went and call('HGET', RETURNED, place)
  if not was then return 'unknown' end
  if sub(was, 1, 4) == 'back' then call('HSET', RETURNED, place, 'done' .. sub(was, 5)) end
  return sub(was, 1, 4)
end
for from = placeAt + 1, leaseAt, 1000 do
  done = {}
  for i, lease in ipairs(call('ZMSCORE', LEASES, unpack(ARGV, from, math.min(from + 999, leaseAt)))) do
    local place, named = ARGV[from + i - 1], ARGV[from + i - 1 + acks]
    local what = not lease and late(place) or lease and named ~= '' and named ~= lease and 'changed'
      or lease and sub(lease, -2) == '.5' and 'effects'
    if what then other[#other + 1] = from + i - 1 - placeAt; other[#other + 1] = what else done[#done + 1] = place end
  end
  if #done > 0 then
    try('INCRBY', KEYS[7], call('HDEL', LEASED, unpack(done)))
    call('ZREM', LEASES, unpack(done))
  end
end
if queues == 0 then
  call('HSET', SERVED, 'turn', ARGV[1])
  return {now, {}, {}, errors, other}
end

local paused = match(string.lower(try('GET', KEYS[5]) or ''), '^%s*true%s*$')
local held = try('SMISMEMBER', KEYS[6], unpack(ARGV, 10, placeAt)) or {}
local prefix, dry = {}, {}
for q = 1, queues do
  prefix[q] = #ARGV[9 + q] .. ':' .. ARGV[9 + q]
  dry[q] = held[q] == 1 or paused
  if dry[q] then empty[#empty + 1] = q end
end
local most, room, chunk, largest, count = math.min(tonumber(ARGV[2]), 1000), tonumber(ARGV[3]), 1, 1, 0
local jobs, places, ttrs = {}, {}, {} -- times as texts: the embedded Redis makes an array of a table with large numbers as keys
local function reserve(ask, q, ttr, got) -- how many of these are for a client
  local given, first, ends = 0, count, {}
  for i, payload in ipairs(got) do
    local id
    id, ends[i] = tail(payload)
    id, count = id or fresh(ARGV[5]), count + 1
    local at = 4 * count
    jobs[at - 3], jobs[at - 2], jobs[at - 1], jobs[at], places[count] = ask, id, q, payload, prefix[q] .. id
    room, largest = room - #payload, math.max(largest, #payload)
  end
  local was = went and #got > 0 and call('HMGET', RETURNED, unpack(places, first + 1, count))
  for i, payload in ipairs(got) do
    local mark, to = was and was[i], ask
    local same = mark and sub(mark, 6, 45) == redis.sha1hex(payload)
    if same and sub(mark, 1, 4) == 'done' then to = -1
    elseif ends[i] and ends[i] <= now then to = 0
    elseif same then call('HDEL', RETURNED, places[first + i]) end
    jobs[4 * (first + i) - 3], ttrs[first + i] = to, to > 0 and ttr or ARGV[4]
    if to > 0 then given = given + 1 end
  end
  return given
end
local ask, at = 0, askAt + 1
while at <= #ARGV do
  ask = ask + 1
  local ttr, want, m = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  for i = at + 3, at + 2 + m do
    local q = tonumber(ARGV[i])
    while want > 0 and count < most and (room > 0 or count == 0) and not dry[q] do
      local n = math.min(want, most - count, chunk)
      local got = try('LPOP', KEYS[7 + q], n) or {}
      want = want - reserve(ask, q, ttr, got)
      if #got < n then dry[q] = true; empty[#empty + 1] = q end
      chunk = math.max(1, math.min(4 * chunk, 64, math.floor(room / largest)))
    end
  end
  at = at + 3 + m
end

if count == 0 then call('HSET', SERVED, 'turn', ARGV[1])
else
  local leases, taken, fields, scores, lines, known = call('ZMSCORE', LEASES, unpack(places)), {}, {}, {}, {ARGV[1]}, {}
  for i = 1, count do
    local place, q, payload = places[i], jobs[4 * i - 1], jobs[4 * i]
    local other = leases[i]
    while other or taken[place] do -- two jobs of one id: nothing is overwritten
      jobs[4 * i - 2] = fresh(ARGV[5])
      place = prefix[q] .. jobs[4 * i - 2]
      other = call('ZSCORE', LEASES, place)
    end
    local till = known[ttrs[i]] or string.format('%.0f', now + ttrs[i]) -- as text: Redis would print each number
    known[ttrs[i]] = till
    for t = textAt + 1, askAt do
      if find(payload, ARGV[t], 1, true) then
        till, jobs[4 * i - 1] = till .. '.5', -q
        break
      end
    end
    taken[place], lines[i + 1] = true, till .. ' ' .. place
    fields[2 * i - 1], fields[2 * i], scores[2 * i - 1], scores[2 * i] = place, payload, till, place
  end
  call('HSET', LEASED, unpack(fields))
  call('ZADD', LEASES, unpack(scores))
  call('HSET', SERVED, 'turn', ARGV[1], 'places', table.concat(lines, '\n'))
end
if ARGV[6] == '1' then for _, q in ipairs(empty) do call('EXISTS', KEYS[7 + q]) end end
return {now, jobs, empty, errors, other}
