-- Moves jobs of one class from the head of a queue into one lane: as many as begin as a plain payload of that class does, and
-- name no other class and escape nothing behind that. Which lane all of these have, whatever their arguments are, the caller knows.
-- They are neither read by it nor sent back.
--
-- KEYS  1 queue   2 lanes   3 clock, see take   4 list   5 turns
-- ARGV  how many jobs at most, how they begin: up to the quotation mark behind the class, name of the lane among the turns, member of lanes
-- Returns how many jobs were moved, and how many bytes they have.
--
-- All keys are first read as their type. Redis allows an LTRIM as the first write when out of
-- memory, and then all others.
local find, begin = string.find, ARGV[2]
redis.call('SCARD', KEYS[2])
local ahead, last = string.match(redis.call('GET', KEYS[3]) or '', '^(%d+) (%d+)$')
redis.call('LLEN', KEYS[4])
redis.call('ZCARD', KEYS[5])
local head, moved, bytes, behind = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1), 0, 0, #begin
for i = 1, #head do
  local job = head[i]
  if find(job, begin, 1, true) ~= 1 or find(job, '\\', behind, true) or find(job, '"class"', behind, true) then break end
  moved, bytes = i, bytes + #job
end
if moved == 0 then return {0, 0} end
redis.call('LTRIM', KEYS[1], moved, -1)
local time = redis.call('TIME')
local now = math.max(time[1] * 1000000 + time[2] + (ahead or 0), tonumber(last or 0))
redis.call('SADD', KEYS[2], ARGV[4])
redis.call('ZADD', KEYS[5], 'NX', string.format('%.0f', now + 1), ARGV[3])
redis.call('RPUSH', KEYS[4], unpack(head, 1, moved))
return {moved, bytes}
