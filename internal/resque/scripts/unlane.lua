-- Removes lanes of a queue with their jobs. When the last lane of a set is gone, the set is no
-- longer among those into which jobs are sorted. The scripts that put a job into a lane add
-- lane and set in the same step, so lanes with jobs are never forgotten.
--
-- KEYS  1 lanes   2 turns   then lists
-- ARGV  1 member of lanes, then for each list its name among the turns
--
-- All keys that say where jobs are are first read as their type. Redis allows the writes when
-- out of memory.
redis.call('SCARD', KEYS[1])
redis.call('ZCARD', KEYS[2])
for i = 3, #KEYS do
  redis.call('DEL', KEYS[i])
  redis.call('ZREM', KEYS[2], ARGV[i - 1])
end
if redis.call('ZCARD', KEYS[2]) == 0 then redis.call('SREM', KEYS[1], ARGV[1]) end
