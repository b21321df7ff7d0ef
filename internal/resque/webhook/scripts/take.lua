-- Begins a delivery of a webhook, if the pace of all its deliverers and the receiver allow that, and takes entries of the stream for it.
--
-- KEYS  1 stream   2 state
-- ARGV  1 group   2 consumer   3 how many entries at most, or '0' for a delivery whose entries were taken before
--       4 ms from one delivery to the next   5 how many may begin at once after a rest   6 the receiver, as rest.lua has it
--       7 for how many ms it may ask for a rest   8 bytes of an event at most   9 bytes of arguments at most
-- Returns {ms until one may begin}; {-1}: no entry waits; {0, how many entries were cut in all, how many of them were reported,
--       entries}. Only the last delivery that may begin takes more than one entry.
--
-- Atomic: the call. Redis allows the HDEL as the first write when out of memory, and then all that follow. 'next' is when the next
-- delivery would begin if all kept the distance of ARGV[4], 'read' the number of the last entry that was taken, and 'cut' how many are
-- missing. A time further ahead than any delivery sets it does not count: Redis's clock went back, or another program wrote it.
--@entry
local time, state = redis.call('TIME'), function(field) return redis.call('HGET', KEYS[2], field) end
local now, every, burst = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[4]), tonumber(ARGV[5])
local till, receiver = string.match(state('rest') or '', '^(%d+) (%x+)$')
local rest = receiver == ARGV[6] and (number(till) or 0) - now or 0
if rest > 0 and rest <= tonumber(ARGV[7]) then return {rest} end
local due = number(state('next')) or now
if due < now or due > now + every * burst then due = now end
local wait = due - now - every * (burst - 1)
if wait > 0 then return {wait} end
redis.call('HDEL', KEYS[2], '')
local entries, cut = {}, number(state('cut')) or 0
if ARGV[3] ~= '0' then
  local most = wait + every > 0 and ARGV[3] or '1'
  local reply = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', most, 'STREAMS', KEYS[1], '>')
  local read, missing = number(state('read')), 0
  for i, row in ipairs(reply and reply[1] and reply[1][2] or {}) do
    local n
    entries[i], n = entry(row, ARGV[8], ARGV[9])
    if n and read then missing = missing + math.max(0, n - read - 1) end
    read = n or read
  end
  if #entries == 0 then return {-1} end
  cut = math.min(cut + missing, 999999999999999)
  if missing > 0 then redis.call('HSET', KEYS[2], 'cut', string.format('%.0f', cut)) end
  if read then redis.call('HSET', KEYS[2], 'read', string.format('%.0f', read)) end
end
redis.call('HSET', KEYS[2], 'next', string.format('%.0f', due + every))
return {0, cut, number(state('said')) or 0, entries}
