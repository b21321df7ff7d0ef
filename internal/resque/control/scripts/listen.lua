-- Announces to processes for how long a program listens, and marks in the streams if none has listened so far.
--
-- KEYS  1 notice   2 … the streams that the program wants to be filled
-- ARGV  1 channel   2 how long the notice stays in ms   3 how many fields it has at most   4 for how long the program listens in ms
--       5 how long the streams stay in ms   6 the mark; for each stream the field of the notice, and about how many entries it keeps
-- Returns {Redis's time in ms, how many streams were marked}; {-2}: the notice is full and nothing was written.
--
-- Atomic: the call, so of programs that begin at the same time one marks a stream. A field says that none listens if it
-- is over, or further ahead than any program asks for, which a clock that went back leaves; and if less than a tenth of its time is
-- left, because processes may stop before their next renewal reads the new value. What is read comes first, so a key of a wrong type
-- stops it before it writes. Redis allows the HDEL as the first write when out of memory, and then all that follow.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields, marks = redis.call('HLEN', KEYS[1]), {}
for i = 2, #KEYS do
  local is = redis.call('HGET', KEYS[1], ARGV[2 * i + 3])
  local left = (tonumber(is) or 0) - now
  if not is then fields = fields + 1 end
  if left < ARGV[4] / 10 or left > 2 * ARGV[4] then
    redis.call('XRANGE', KEYS[i], '-', '+', 'COUNT', 1)
    marks[#marks + 1] = i
  end
end
if fields > tonumber(ARGV[3]) then return {-2} end
redis.call('HDEL', KEYS[1], '')
for _, i in ipairs(marks) do
  redis.call('XADD', KEYS[i], 'MAXLEN', '~', ARGV[2 * i + 4], '*', 'l', ARGV[6])
  redis.call('PEXPIRE', KEYS[i], ARGV[5])
end
for i = 2, #KEYS do
  redis.call('HSET', KEYS[1], ARGV[2 * i + 3], string.format('%.0f', now + ARGV[4]))
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if #marks > 0 then redis.pcall('PUBLISH', ARGV[1], ARGV[7]) end
return {now, #marks}
