-- Looks for the job that holds a lock, everywhere a job can be, at one instant. If the job is
-- nowhere, the lock is removed: a job that is nowhere never comes back. An operator may only look.
--
-- KEYS  1 lock   2 rest   3 processes   4 schedule   5 queue   6 lanes   7 jobs that clients hold
--       then in-flight records, turns and lists of lanes
-- ARGV  1 id, 2 value of the lock, 3 how much of it precedes the member of the schedule,
--       4 how much of the member precedes the payload, 5 TTL of the lock in ms
--       once the job is due, or 0 to keep the present one,
--       6 new value of the lock before the time, or '' to change nothing, 7 where the job was seen last or '',
--       how many processes, and for each: itself, record,
--       how many sets of lanes of the queue, and for each: member of lanes, turns,
--       then for each lane: member of lanes, its name, list
-- Returns 'schedule', 'client', 'process', 'queue' or 'lane', where it is; 'nowhere'; 'changed' if the
-- lock has another value, or a process or lane was not named; 'resting'.
--
-- The record of a job from a lane has the lane before the member.
--
-- A look costs as much as the lists are long. After one, no process looks for twenty times as
-- long, so that looks never take more than a twentieth of Redis's time.
local lock, id, said = KEYS[1], ARGV[1], ARGV[2]
if redis.call('HGET', lock, id) ~= said then return 'changed' end
if redis.call('EXISTS', KEYS[2]) == 1 then return 'resting' end
local member = string.sub(said, ARGV[3] + 1)
local prefix, payload = string.sub(member, 1, tonumber(ARGV[4])), string.sub(member, ARGV[4] + 1)
local records, sets, lists, looked, seen, at = {}, {}, {}, 0, '', 9
for _ = 1, tonumber(ARGV[8]) do
  records[ARGV[at]] = KEYS[tonumber(ARGV[at + 1])]
  at = at + 2
end
at = at + 1
for _ = 1, tonumber(ARGV[at - 1]) do
  sets[ARGV[at]] = {turns = KEYS[tonumber(ARGV[at + 1])]}
  at = at + 2
end
for i = at, #ARGV, 3 do
  lists[#lists + 1] = KEYS[tonumber(ARGV[i + 2])]
  sets[ARGV[i]][ARGV[i + 1]] = true
end
for _, process in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  if not records[process] then return 'changed' end
end
for _, name in ipairs(redis.call('SMEMBERS', KEYS[6])) do
  if string.sub(name, 1, #prefix) == prefix then
    if not sets[name] then return 'changed' end
    for _, lane in ipairs(redis.call('ZRANGE', sets[name].turns, 0, -1)) do
      if not sets[name][lane] then return 'changed' end
    end
  end
end

local function holds(record, field) -- behind the record's prefix: queue or lane
  return string.sub(redis.call('HGET', record, field) or '', -#payload) == payload
end
local function running()
  local ticket, last = string.match(ARGV[7], '^(%d+)@(.*)$')
  if ticket and records[last] and holds(records[last], ticket) then
    seen = ARGV[7]
    return true
  end
  for process, record in pairs(records) do
    local fields = redis.call('HKEYS', record)
    looked = looked + 20 * #fields
    for _, field in ipairs(fields) do -- lengths first: payloads may be large
      local own = string.match(field, '^p(%d+)$') -- of a payload alone: see parts/apart.lua
      local more = redis.call('HSTRLEN', record, field) - #payload
      if (more > 0 or own and more == 0) and holds(record, field) then
        seen = (own or field) .. '@' .. process
        return true
      end
    end
  end
end
local function leased() -- under its id, or under another one where two jobs of one id are held
  if redis.call('HSTRLEN', KEYS[7], prefix .. id) > 0 then return true end
  local places = redis.call('HKEYS', KEYS[7])
  looked = looked + 20 * #places
  for _, place in ipairs(places) do
    if redis.call('HSTRLEN', KEYS[7], place) == #payload and holds(KEYS[7], place) then return true end
  end
end
local function waiting(list)
  local at = redis.call('LPOS', list, payload)
  looked = looked + (at or redis.call('LLEN', list))
  return at
end
local function sorted()
  looked = looked + 20 * #lists
  for _, list in ipairs(lists) do if waiting(list) then return true end end
end
local due = redis.call('ZSCORE', KEYS[4], member)
local where = due and 'schedule'
  or leased() and 'client'
  or running() and 'process'
  or waiting(KEYS[5]) and 'queue' or sorted() and 'lane' or 'nowhere'
if ARGV[6] == '' then return where end
if where == 'nowhere' then
  redis.call('HDEL', lock, id)
else
  local now = redis.call('TIME')
  now = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
  redis.call('HSET', lock, id, ARGV[6] .. ' ' .. now .. ' ' .. seen .. ' ' .. member)
  if ARGV[5] ~= '0' then
    local stays = math.min(ARGV[5] + math.max(0, (due or 0) - now), 9223372036854) -- 292 years, as Go counts
    redis.call('PEXPIRE', lock, string.format('%.0f', stays))
  end
end
if looked >= 1000 then redis.call('SET', KEYS[2], '1', 'PX', math.floor(looked / 1000)) end
return where
