-- Renews a process's lease and shows it everybody's.
--
-- KEYS  1 processes   2 process record   3 tombstone   then the schedules of delayed jobs
-- ARGV  process, lease in ms
-- Returns {'ok', seconds, microseconds, score of the first member of each schedule or ''…,
--       process, lease, process, lease, …} or {'reaped'|'gone'}.
--
-- XX: a lease that somebody removed is not put back by its renewal. The HDEL is a first
-- write that Redis allows when out of memory, so that leases live on there.
if redis.call('EXISTS', KEYS[3]) == 1 then return {'reaped'} end
if redis.call('HEXISTS', KEYS[2], 'epoch') == 0 or not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return {'gone'}
end
redis.call('HDEL', KEYS[2], '')
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]), ARGV[1])
local reply = {'ok', time[1], time[2]}
for key = 4, #KEYS do reply[key] = redis.pcall('ZRANGE', KEYS[key], 0, 0, 'WITHSCORES')[2] or '' end
for _, lease in ipairs(redis.call('ZRANGE', KEYS[1], 0, 1999, 'WITHSCORES')) do reply[#reply + 1] = lease end
return reply
