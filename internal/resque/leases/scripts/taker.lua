-- Renews the record of a server that takes jobs for clients, and says whether it does what no daemon does.
--
-- KEYS  1 takers   2 record   3 processes   then the schedules of delayed jobs, the indexes of workflows and of groups,
--       and the leases of jobs that clients hold; then the keys of what it carries
-- ARGV  server, how long its record counts in ms, how many keys those from the schedules on are, how many fields and values
--       of the record, these, then what it carries, as parts/carry.lua has it
-- Returns {'1' if no process of a daemon lives and no server before this one by name, or '0', seconds, microseconds, answers
--       of what it carries, score of the first member of each of these keys or ''…}.
--
-- Atomic: the call. Servers whose time is over leave the set. Redis allows an HDEL as the first write when out of memory,
-- and then all that follow.
--@carry
redis.call('ZCARD', KEYS[1])
redis.call('HDEL', KEYS[2], '')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[2], unpack(ARGV, 5, 4 + ARGV[4]))
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('ZREM', KEYS[1], '', unpack(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, 1000)))
local leads = #redis.call('ZRANGEBYSCORE', KEYS[3], string.format('%.0f', now), '+inf', 'LIMIT', 0, 1) == 0
for _, taker in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do leads = leads and taker >= ARGV[1] end
local reply = {leads and '1' or '0', time[1], time[2], carry(KEYS[2], 5 + ARGV[4], redis.call('HGET', KEYS[2], 'carried'))}
for key = 4, 3 + ARGV[3] do reply[key + 1] = redis.pcall('ZRANGE', KEYS[key], 0, 0, 'WITHSCORES')[2] or '' end
return reply
