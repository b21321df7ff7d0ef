-- Brings back the tasks of dead workers of delayed, and makes the notifications that are missing.
--
-- KEYS  1 tasks   2 notifications   3 tasks in hand: worker → task
-- ARGV  1 how many notifications to make at most   then for each dead worker: its id, its task
-- Returns {tasks brought back, notifications made, notifications that are missing still}
--
-- Atomic: the call. A task is brought back if its worker still has this one in hand: so two sweepers bring it back once. The LTRIMs
-- trim nothing, and the first HDEL deletes nothing: they show at the start whether the user may write the keys.
local back, made = {}, 0
local missing = redis.call('LLEN', KEYS[1]) - redis.call('LLEN', KEYS[2])
redis.call('LTRIM', KEYS[1], 0, -1)
redis.call('LTRIM', KEYS[2], 0, -1)
local none = ''
while redis.call('HGET', KEYS[3], none) do none = none .. '-' end
redis.call('HDEL', KEYS[3], none)
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[3], ARGV[i]) == ARGV[i + 1] then back[#back + 1] = i end
end
for _, i in ipairs(back) do
  redis.call('RPUSH', KEYS[1], ARGV[i + 1])
  redis.call('HDEL', KEYS[3], ARGV[i])
end
missing = missing + #back
local ones = {}
for i = 1, 1000 do ones[i] = '1' end
for _ = 1, math.min(missing, tonumber(ARGV[1])), 1000 do
  local n = math.min(missing, 1000)
  redis.call('LPUSH', KEYS[2], unpack(ones, 1, n))
  made, missing = made + n, missing - n
end
return {#back, made, missing}
