-- Adds tasks to a queue of delayed, each with its notification.
--
-- KEYS  1 tasks   2 notifications   ARGV  the tasks
-- Returns how many tasks wait.
--
-- Atomic: the call. The notifications come second: a worker that pops one finds its task.
redis.call('LLEN', KEYS[2])
local ones, waiting = {}
for i = 1, math.min(#ARGV, 1000) do ones[i] = '1' end
for from = 1, #ARGV, 1000 do
  local to = math.min(from + 999, #ARGV)
  waiting = redis.call('RPUSH', KEYS[1], unpack(ARGV, from, to))
  redis.call('RPUSH', KEYS[2], unpack(ones, 1, to - from + 1))
end
return waiting
