-- Gives up the place of a process that can take no more, and chooses who is to be called in its stead: one process that waits, and
-- one more while there are jobs. They leave those that wait, and have the free seats.
--
-- KEYS  1 sentries of the crew   2 processes   then queues in which there may be jobs
-- ARGV  process, how many seats there are
-- Returns the processes to call.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function alive(p) return tonumber(redis.call('ZSCORE', KEYS[2], p) or 0) > now end
local calls, free, called = 1, tonumber(ARGV[2]), {}
for i = 3, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then calls = 2 end
end
redis.call('ZREM', KEYS[1], ARGV[1])
for _, p in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], 0, 0)) do
  if alive(p) then free = free - 1 else redis.call('ZREM', KEYS[1], p) end
end
while #called < calls do
  local p = redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf', 'LIMIT', 0, 1)[1]
  if not p then break end
  redis.call('ZREM', KEYS[1], p)
  if alive(p) then
    called[#called + 1] = p
    if free > 0 then redis.call('ZADD', KEYS[1], 0, p) end
    free = free - 1
  end
end
return called
