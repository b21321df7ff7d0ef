-- Returns the groups of jobs that are due, and when the next one is.
--
-- KEYS  1 index of the groups   ARGV  1 '1' for all groups, or only those that are due   2 how many to pass over   3 how many at most
-- Returns {Redis's time in ms, score of the first group that is not due or '', id, …}. It writes nothing.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local later = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or ''
local answer = {now, later}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1] == '1' and '+inf' or now, 'LIMIT', ARGV[2], ARGV[3])) do
  answer[#answer + 1] = id
end
return answer
