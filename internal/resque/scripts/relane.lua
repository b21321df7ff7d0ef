-- Puts lanes that have jobs back among those that jobs are taken from. The keys that named
-- them were removed.
--
-- KEYS  1 lanes   2 clock, see take   then turns and lists
-- ARGV  for each set of lanes that share their limits: key of the turns, member of lanes, how
--       many lanes, and for each of these: key of the list, its name among the turns
-- Returns how many were put back: lanes, and sets of lanes.
--
-- All keys are first read as their type. Redis allows an SREM as the first write when out of
-- memory, and then all others.
local at, sets = 1, {}
redis.call('SCARD', KEYS[1])
local ahead, last = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%d+)$')
while at <= #ARGV do
  local set = {turns = KEYS[tonumber(ARGV[at])], member = ARGV[at + 1], lanes = {}}
  redis.call('ZCARD', set.turns)
  for i = at + 3, at + 1 + 2 * ARGV[at + 2], 2 do
    if redis.call('LLEN', KEYS[tonumber(ARGV[i])]) > 0 and not redis.call('ZSCORE', set.turns, ARGV[i + 1]) then
      set.lanes[#set.lanes + 1] = ARGV[i + 1]
    end
  end
  sets[#sets + 1] = set
  at = at + 3 + 2 * ARGV[at + 2]
end
redis.call('SREM', KEYS[1], '')
local time = redis.call('TIME')
local now = math.max(time[1] * 1000000 + time[2] + (ahead or 0), tonumber(last or 0))
local back = 0
for _, set in ipairs(sets) do
  for i, name in ipairs(set.lanes) do
    back = back + redis.call('ZADD', set.turns, 'NX', string.format('%.0f', now + i), name)
  end
  if redis.call('ZCARD', set.turns) > 0 then back = back + redis.call('SADD', KEYS[1], set.member) end
end
return back
