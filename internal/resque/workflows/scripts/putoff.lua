-- Says of workflows at which the sweep has looked, and that need nothing now, when to look again. Atomic: each of them.
--
-- KEYS  1 index   then the hash of each
-- ARGV  for each: id, its score when it was read, or '' for any that is not due, the next score, its field state, its
--       field looked or '' if that is written
-- One that was put forward meanwhile, or is in another state, is left as it is. One whose hash Redis refuses is only
-- put off.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #KEYS do
  local at = 5 * i - 9
  local id, seen, next, state, looked = unpack(ARGV, at, at + 4)
  local has = redis.pcall('HGET', KEYS[i], 'state')
  if type(has) == 'table' then has, looked = state, '' end
  local score = redis.call('ZSCORE', KEYS[1], id)
  if has == state and score and (score == seen or seen == '' and tonumber(score) > now) then
    if looked ~= '' then redis.call('HSET', KEYS[i], 'looked', looked) end
    redis.call('ZADD', KEYS[1], next, id)
  end
end
