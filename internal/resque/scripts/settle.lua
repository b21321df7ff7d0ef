-- Commits outcomes that take more than an acknowledgement: for each job its effects,
-- and then the removal of its ticket, as one. What effects there are is Go's to know;
-- here they are commands on keys. One is ours: lock id said ms keeps a unique job's lock,
-- or takes it again, unless another job has it by now.
--
-- KEYS  1 in-flight record   2 process record   3 tombstone   4 stat:processed   5 stat:failed
--       6 limits   then the effects' keys and those of rates and turns in any order
-- ARGV  epoch, then for each job: ticket, '' or 'done' or 'failed', how many effects, and
--       for each of these: how many arguments, command, key, the arguments; then, of a job that
--       was not run: how many rates get back the start it took, and for each of these: key, its
--       name among the limits, key of the turns or 0, the lane's name there
-- Returns {'ok', tickets that were not in the record, {key, error…}} or {'stale'|'gone'|'reaped'}.
--
-- A job whose effect Redis refuses keeps its ticket and is committed again later. All
-- its effects but the last are such that doing them twice is doing them once. A start is
-- given back with the ticket, and so once. Where its rate is one of the lane only, the turn
-- of the lane, which was put off until there is another start, comes now.
local record = KEYS[1]
redis.call('HLEN', record)
local epoch = redis.call('HGET', KEYS[2], 'epoch')
local reaped = redis.call('EXISTS', KEYS[3]) == 1
if epoch ~= ARGV[1] then return {reaped and 'reaped' or epoch and 'stale' or 'gone'} end
redis.call('HDEL', record, '') -- not refused when out of memory, and so nothing after it is

local missing, errors, done, failed = 0, {}, 0, 0
local function lock(key, id, said, ms)
  local own = redis.pcall('HEXISTS', key, id)
  if type(own) == 'table' or own == 0 and redis.call('EXISTS', key) == 1 then return own end
  redis.call('HSET', key, id, said)
  return redis.call('PEXPIRE', key, ms)
end
local function try(command, key, ...)
  local reply = command == 'lock' and lock(KEYS[key], ...) or redis.pcall(command, KEYS[key], ...)
  if type(reply) ~= 'table' or not reply.err then return reply, true end
  errors[#errors + 1] = KEYS[key]; errors[#errors + 1] = reply.err
end
local function giveBack(rate, spec, turns, lane)
  local said = try('HGET', 6, spec)
  local every = tonumber(string.match(said or '', '^([%d.]+) ?%d*$') or '') or said and 1000000
  local due = try('GET', rate)
  if every and tonumber(due or '') then
    redis.call('SET', KEYS[rate], string.format('%.2f', due - every), 'KEEPTTL')
  end
  if turns == 0 then return end
  local time = redis.call('TIME')
  try('ZADD', turns, 'XX', 'LT', string.format('%.0f', time[1] * 1000000 + time[2]), lane)
end
local at = 2
while at <= #ARGV do
  local ticket, counts, effects = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  at = at + 3
  local held = redis.call('HEXISTS', record, ticket)
  local ok = held == 1 or not reaped
  missing = missing + 1 - held
  for _ = 1, effects do
    local last = at + 2 + ARGV[at]
    ok = ok and select(2, try(ARGV[at + 1], tonumber(ARGV[at + 2]), unpack(ARGV, at + 3, last)))
    at = last + 1
  end
  for _ = 1, tonumber(ARGV[at]) do
    if ok and held == 1 then giveBack(tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4]) end
    at = at + 4
  end
  at = at + 1
  if ok then
    redis.call('HDEL', record, ticket)
    if counts ~= '' then done = done + 1 end
    if counts == 'failed' then failed = failed + 1 end
  end
end
if done > 0 then try('INCRBY', 4, done) end
if failed > 0 then try('INCRBY', 5, failed) end
return {'ok', missing, errors}
