-- Writes rows of the history to which packs were added, and takes these packs out of the tally.
--
-- KEYS  1 tally   2 folded   then the rows
-- ARGV  1 number of the fold before   2 number of this one   3 how many packs leave the tally   4 how many marks   5 how many
--       recorders are forgotten   then field and value of each mark, the fields of those that are forgotten, and for each row how
--       long it is kept in ms and what it is
-- Returns 'ok', or 'changed' if another process has folded meanwhile: then nothing is written.
--
-- Atomic: the call. What is read comes first, so a key of a wrong type stops it before it writes. Redis allows an HDEL as the first
-- write when out of memory, and then all that follow.
if (redis.call('HGET', KEYS[2], 'n') or '') ~= ARGV[1] then return 'changed' end
redis.call('LLEN', KEYS[1])
redis.call('HDEL', KEYS[2], '')
local at = 6
local function take(n)
  local first = at
  at = at + n
  return first, at - 1
end
redis.call('HSET', KEYS[2], 'n', ARGV[2])
for _ = 1, tonumber(ARGV[4]) do redis.call('HSET', KEYS[2], unpack(ARGV, take(2))) end
for _ = 1, tonumber(ARGV[5]) do redis.call('HDEL', KEYS[2], unpack(ARGV, take(1))) end
if tonumber(ARGV[3]) > 0 then redis.call('LTRIM', KEYS[1], ARGV[3], -1) end
for key = 3, #KEYS do
  redis.call('SET', KEYS[key], ARGV[at + 1], 'PX', ARGV[at])
  at = at + 2
end
return 'ok'
