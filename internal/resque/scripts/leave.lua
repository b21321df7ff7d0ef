-- Takes a process out of the fleet, if its in-flight record holds no more than the mark, payloads of jobs that have ended, and
-- how many payloads it has.
--
-- KEYS  1 processes   2 process record   3 in-flight record   4 pulse   5 what its program has registered
-- ARGV  process
-- Returns how many jobs are left. With 0 the process is out.
local left = redis.call('HLEN', KEYS[3]) - redis.call('HEXISTS', KEYS[3], 'entered')
if left > 0 then
  left = 0
  for _, field in ipairs(redis.call('HKEYS', KEYS[3])) do
    if field ~= 'entered' and field ~= 'apart' and not string.find(field, '^p%d+$') then left = left + 1 end
  end
end
if left == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('DEL', KEYS[2], KEYS[3], KEYS[5])
  if redis.call('ZCARD', KEYS[1]) == 0 then redis.call('DEL', KEYS[4]) end
end
return left
