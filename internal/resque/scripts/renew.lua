-- Renews a process's lease, and returns what the process must know of the fleet: not the leases of all, of which there may be many.
--
-- KEYS  1 processes   2 process record   3 tombstone   4 pulse   then the schedules of
--       delayed jobs, the indexes of workflows and of groups, and the leases of jobs that clients hold; then the keys of
--       what it carries
-- ARGV  process, lease in ms, longest gap between two renewals in ms, how many keys those from the schedules on are, another
--       process or '', how many leases of dead ones and ids it returns at most, then what it carries, as parts/carry.lua has it
-- Returns {'ok', since when in ms, seconds, microseconds, answers of what it carries, score of the first member of each
--       of these keys or ''…, how many processes there are, {process, lease, …} of those that may be dead, and {process, …} of
--       those that live, unless the other process is one of them} or {'reaped'|'gone'}.
--
-- The pulse says since when the fleet's renewals have come without a gap, and when the last
-- one came. A gap, or a clock that jumped, restarts it. Where it is older than a lease, each lease was renewed by the clock of
-- now: a process may be dead whose lease is over, or further ahead than a renewal puts it. Otherwise those only that count as dead.
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
redis.call('SET', KEYS[4], string.format('%.0f %.0f', since, now), 'PX', ARGV[3])
local reply = {'ok', string.format('%.0f', since), time[1], time[2], carry(KEYS[2], 7, record[2])}
for key = 5, 4 + ARGV[4] do reply[key + 1] = redis.pcall('ZRANGE', KEYS[key], 0, 0, 'WITHSCORES')[2] or '' end
reply[#reply + 1] = string.format('%d', redis.call('ZCARD', KEYS[1]))
local function leases(from, to, ...) return redis.call('ZRANGEBYSCORE', KEYS[1], from, to, 'LIMIT', 0, ARGV[6], ...) end
local steady = now - since >= tonumber(ARGV[2])
local late = leases('-inf', steady and string.format('%.0f', now) or '(0', 'WITHSCORES')
if steady then
  for _, lease in ipairs(leases(string.format('(%.0f', now + ARGV[2]), '+inf', 'WITHSCORES')) do late[#late + 1] = lease end
end
reply[#reply + 1] = late
local other = ARGV[5] ~= '' and redis.call('ZSCORE', KEYS[1], ARGV[5])
if not other or tonumber(other) < 0 then reply[#reply + 1] = leases(0, '+inf') end
return reply
