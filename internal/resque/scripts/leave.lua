-- Takes a process out of the fleet, if nothing is left in its in-flight record.
--
-- KEYS  1 processes   2 process record   3 in-flight record
-- ARGV  process
-- Returns how many jobs are left; 0 means that it is out.
local left = redis.call('HLEN', KEYS[3])
if left == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('DEL', KEYS[2])
end
return left
