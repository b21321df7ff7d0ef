-- Removes lists of an operation from the bin for good.
--
-- KEYS  1 record   then lists in the bin
-- ARGV  the names of these lists
-- Returns how many jobs were in those.
--
-- Atomic: the call. Redis allows these writes when out of memory.
local jobs = 0
for key = 2, #KEYS do
  local size = redis.pcall('LLEN', KEYS[key])
  if type(size) == 'number' then jobs = jobs + size end
  redis.call('UNLINK', KEYS[key])
  redis.pcall('HDEL', KEYS[1], 'bin:' .. ARGV[key - 1])
end
return jobs
