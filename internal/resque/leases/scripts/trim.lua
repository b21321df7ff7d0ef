-- Removes marks of jobs that went back, unless they changed since they were read.
--
-- KEYS  1 returned
-- ARGV  place, mark…
-- Returns how many were removed.
--
-- Atomic: the call.
local removed = 0
for at = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[at]) == ARGV[at + 1] then removed = removed + redis.call('HDEL', KEYS[1], ARGV[at]) end
end
return removed
