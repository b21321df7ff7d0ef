-- Reads entries of the stream that a deliverer has claimed. Those that are not there any more it counts as cut.
--
-- KEYS  1 stream   2 state
-- ARGV  1 group   2 how many more are cut   3 bytes of an event at most   4 bytes of arguments at most   5… ids
-- Returns the entries.
--
-- Atomic: the call. Redis allows the HDEL as the first write when out of memory, and then all that follow.
--@entry
local entries, cut = {}, tonumber(ARGV[2])
for i = 5, #ARGV do
  local row = redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])[1]
  if row then
    entries[#entries + 1] = entry(row, ARGV[3], ARGV[4])
  else
    redis.call('XACK', KEYS[1], ARGV[1], ARGV[i])
    cut = cut + 1
  end
end
if cut > 0 then
  redis.call('HDEL', KEYS[2], '')
  cut = cut + (number(redis.call('HGET', KEYS[2], 'cut')) or 0)
  redis.call('HSET', KEYS[2], 'cut', string.format('%.0f', math.min(cut, 999999999999999)))
end
return entries
