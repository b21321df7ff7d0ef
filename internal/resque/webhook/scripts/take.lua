-- Begins a delivery of a webhook, if the pace of all its deliverers allows that, and takes entries of the stream for it.
--
-- KEYS  1 stream   2 state
-- ARGV  1 group   2 consumer   3 how many entries at most, or '0' for a delivery whose entries were taken before
--       4 ms from one delivery to the next   5 how many may begin at once after a rest
-- Returns {ms until one may begin}; {-1}: no entry waits; {0, how many entries were cut in all, how many of them were reported,
--       entries}. Only the last delivery that may begin takes more than one entry.
--
-- Atomic: the call. Redis allows the HDEL as the first write when out of memory, and then all that follow. 'next' is when the next delivery would begin if all kept the distance of ARGV[4]; 'read' is the number of
-- the last entry that was taken, and 'cut' how many are missing.
local time = redis.call('TIME')
local now, every = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[4])
local due = math.max(now, tonumber(redis.call('HGET', KEYS[2], 'next') or '0'))
local wait = due - now - every * (tonumber(ARGV[5]) - 1)
if wait > 0 then return {wait} end
redis.call('HDEL', KEYS[2], '')
local entries = {}
if ARGV[3] ~= '0' then
  local most = wait + every > 0 and ARGV[3] or '1'
  local reply = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', most, 'STREAMS', KEYS[1], '>')
  entries = reply and reply[1] and reply[1][2] or entries
  if #entries == 0 then return {-1} end
  local read = redis.call('HGET', KEYS[2], 'read')
  local missing = read and entries[1][2][2] - read - 1 or 0
  if missing > 0 then redis.call('HINCRBY', KEYS[2], 'cut', missing) end
  redis.call('HSET', KEYS[2], 'read', entries[#entries][2][2])
end
redis.call('HSET', KEYS[2], 'next', string.format('%.0f', due + every))
return {0, redis.call('HGET', KEYS[2], 'cut') or '0', redis.call('HGET', KEYS[2], 'said') or '0', entries}
