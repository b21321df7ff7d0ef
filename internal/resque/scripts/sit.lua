-- Claims a seat: a crew has so many sentries, whom Redis notifies of pushes. Its other idle processes wait until one is called.
--
-- KEYS  1 sentries of the crew   2 processes
-- ARGV  process, how many seats there are, how long a place holds that is not claimed again, in ms
-- Returns 1 if the process has a seat, else 0.
--
-- The score of a sentry is 0. That of a process that waits is when it claimed, in ms. Seats of dead processes are free.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local free, gone = tonumber(ARGV[2]), {}
for _, p in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], 0, 0)) do
  if p ~= ARGV[1] then
    if tonumber(redis.call('ZSCORE', KEYS[2], p) or 0) > now then free = free - 1 else gone[#gone + 1] = p end
  end
end
for _, range in ipairs({{'(0', string.format('%.0f', now - ARGV[3])}, {string.format('(%.0f', now), '+inf'}}) do
  for _, p in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], range[1], range[2], 'LIMIT', 0, 100)) do gone[#gone + 1] = p end
end
local mine = free > 0
for _, p in ipairs(gone) do redis.call('ZREM', KEYS[1], p) end
redis.call('ZADD', KEYS[1], mine and 0 or string.format('%.0f', now), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return mine and 1 or 0
