-- Fires ticks of a recurring schedule: proves that no process has fired them, notes the last
-- of them and pushes their jobs, in one step. Without jobs it only notes.
--
-- KEYS  1 ticks   2 delayed:last_enqueued_at   3 paused schedules   4 queues   5 queue
--       6 lock of resque-schedulers
-- ARGV  schedule, its tick as it was read or '', its last_enqueued_at as it was read or '',
--       tick to note, without when the job was enqueued, Redis's time in ms before which it is too early,
--       '1': not while a Ruby scheduler holds the lock, last_enqueued_at to note,
--       name of the queue, payloads
-- Returns {'ok'}, {'paused'}: noted, nothing pushed, {'moved', tick, last_enqueued_at} as
-- they are, {'foreign', holder} or {'early', Redis's time in ms}.
--
-- A tick is noted with the last_enqueued_at of that moment. If that has changed later, another
-- program enqueued the job.
--
-- Our holders of the lock end with eight digits, Ruby's with the process number. Redis refuses
-- the first write when out of memory: the tick is late then, not lost.
local tick = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local enqueued = redis.call('HGET', KEYS[2], ARGV[1]) or ''
local paused = redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1
redis.call('SCARD', KEYS[4])
redis.call('LLEN', KEYS[5])
if tick ~= ARGV[2] or enqueued ~= ARGV[3] then return {'moved', tick, enqueued} end
local holder = ARGV[6] == '1' and redis.call('GET', KEYS[6])
if holder and not string.find(holder, '^[^:]+:%d+:%x%x%x%x%x%x%x%x$') then return {'foreign', holder} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now < tonumber(ARGV[5]) then return {'early', string.format('%.0f', now)} end
local fires = #ARGV >= 9 and not paused
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4] .. ' ' .. (fires and ARGV[7] or enqueued))
if #ARGV < 9 then return {'ok'} end
if paused then return {'paused'} end
redis.call('SADD', KEYS[4], ARGV[8])
for from = 9, #ARGV, 1000 do
  redis.call('RPUSH', KEYS[5], unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[7])
return {'ok'}
