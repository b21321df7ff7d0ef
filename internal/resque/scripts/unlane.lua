-- Removes lanes of a queue with their jobs. Once none is left that share the same limits,
-- neither are they among those into which jobs are sorted. Who puts a job into a lane
-- puts both there in the same step: so lanes with jobs are never forgotten.
--
-- KEYS  1 lanes   2 turns   then lists
-- ARGV  1 member of lanes, then for each list its name among the turns
--
-- All keys that say where jobs are are read as their type first. The writes are such that
-- Redis allows them when out of memory.
redis.call('SCARD', KEYS[1])
redis.call('ZCARD', KEYS[2])
for i = 3, #KEYS do
  redis.call('DEL', KEYS[i])
  redis.call('ZREM', KEYS[2], ARGV[i - 1])
end
if redis.call('ZCARD', KEYS[2]) == 0 then redis.call('SREM', KEYS[1], ARGV[1]) end
