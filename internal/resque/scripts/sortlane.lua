-- Moves jobs from the head of a queue into one lane, if the queue still holds there what was read: sort.lua for
-- jobs of one lane, none of which has a priority. Their bytes are compared all at once. A line feed stands between
-- two jobs, and in none of those that were sent: so as many jobs with the same text are the same jobs.
--
-- KEYS  1 queue   2 lanes   3 clock, see take   4 list   5 turns
-- ARGV  how many jobs, their text, name of the lane among the turns, member of lanes
-- Returns how many jobs were moved: all or none.
--
-- All keys are first read as their type. Redis allows an LTRIM as the first write when out of
-- memory, and then all others.
redis.call('SCARD', KEYS[2])
local ahead, last = string.match(redis.call('GET', KEYS[3]) or '', '^(%d+) (%d+)$')
redis.call('LLEN', KEYS[4])
redis.call('ZCARD', KEYS[5])
local head = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1)
if #head ~= tonumber(ARGV[1]) or table.concat(head, '\n') ~= ARGV[2] then return 0 end
redis.call('LTRIM', KEYS[1], #head, -1)
local time = redis.call('TIME')
local now = math.max(time[1] * 1000000 + time[2] + (ahead or 0), tonumber(last or 0))
redis.call('SADD', KEYS[2], ARGV[4])
redis.call('ZADD', KEYS[5], 'NX', string.format('%.0f', now + 1), ARGV[3])
redis.call('RPUSH', KEYS[4], unpack(head))
return #head
