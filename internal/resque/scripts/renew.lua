-- Renews a process's lease and returns the leases of all processes.
--
-- KEYS  1 processes   2 process record   3 tombstone   4 pulse   then the schedules of
--       delayed jobs, the indexes of workflows and of groups, and the leases of jobs that clients hold; then the keys of
--       what it carries
-- ARGV  process, lease in ms, longest gap between two renewals in ms, how many keys those from the schedules on are, then
--       what it carries, as parts/carry.lua has it
-- Returns {'ok', since when in ms, seconds, microseconds, answers of what it carries, score of the first member of each
--       of these keys or ''…, process, lease, process, lease, …} or {'reaped'|'gone'}.
--
-- The pulse says since when the fleet's renewals have come without a gap, and when the last
-- one came. A gap, or a clock that jumped, restarts it.
--
-- XX: a renewal does not put back a lease that another program removed. Redis allows an HDEL as
-- the first write when out of memory, so that leases are renewed there too.
--@carry
if redis.call('EXISTS', KEYS[3]) == 1 then return {'reaped'} end
local record = redis.call('HMGET', KEYS[2], 'epoch', 'carried')
if not record[1] or not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return {'gone'}
end
redis.call('HDEL', KEYS[2], '')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', now + ARGV[2]), ARGV[1])
local pulse = redis.pcall('GET', KEYS[4])
local since, last = string.match(type(pulse) == 'string' and pulse or '', '^(%d+) (%d+)$')
since, last = tonumber(since or now), tonumber(last or now)
if now < last or last < since or now - last > tonumber(ARGV[3]) then since = now end
since = string.format('%.0f', since)
redis.call('SET', KEYS[4], string.format('%s %.0f', since, now), 'PX', ARGV[3])
local reply = {'ok', since, time[1], time[2], carry(KEYS[2], 5, record[2])}
for key = 5, 4 + ARGV[4] do reply[key + 1] = redis.pcall('ZRANGE', KEYS[key], 0, 0, 'WITHSCORES')[2] or '' end
for _, lease in ipairs(redis.call('ZRANGE', KEYS[1], 0, 1999, 'WITHSCORES')) do reply[#reply + 1] = lease end
return reply
