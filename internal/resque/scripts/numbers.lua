-- Writes the numbers that limits have in a process's program, but for those that operators have set.
--
-- KEYS  1 numbers of limits   2 rules of operators
-- ARGV  1 '1': only those that are missing, then for each limit its name and its number
-- Returns how many were written.
--
-- Atomic: the call. What is read comes first. Without a readable hash of rules there are none.
redis.call('HLEN', KEYS[1])
local pairs = {}
for i = 2, #ARGV, 2 do
  local ruled = redis.pcall('HEXISTS', KEYS[2], 'limit:' .. ARGV[i])
  if ruled ~= 1 then pairs[#pairs + 1], pairs[#pairs + 2] = ARGV[i], ARGV[i + 1] end
end
local written = 0
for i = 1, #pairs, 2 do
  written = written + redis.call(ARGV[1] == '1' and 'HSETNX' or 'HSET', KEYS[1], pairs[i], pairs[i + 1])
end
return written
