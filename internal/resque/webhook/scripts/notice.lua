-- Writes into the stream of a webhook that something is wrong, or is so no more, and keeps which of it was said.
--
-- KEYS  1 stream   2 state
-- ARGV  1 field of the state   2 its value, or '' when it is over   3 about how many entries stay   4 the notice
-- Returns 1, or 0 if it was said before.
--
-- Atomic: the call. Redis allows the HDEL as the first write when out of memory, and then all that follow.
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == (ARGV[2] == '' and 0 or 1) then return 0 end
redis.call('HDEL', KEYS[2], '')
local number = redis.call('HINCRBY', KEYS[2], 'written', 1)
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'n', string.format('%.0f', number), 'e', ARGV[4], 'a', '')
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
end
return 1
