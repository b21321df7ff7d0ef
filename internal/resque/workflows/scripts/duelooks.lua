-- Returns the workflows that the sweep is to look at now, and when it is to look at the next one.
--
-- KEYS  1 index   ARGV  1 no entry before this time in ms, or '-inf'   2 how many at most
-- Returns {Redis's time in ms, score of the first entry that is not due or '', id, score, …}. It writes nothing.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local later = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or ''
local answer = {now, later}
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], now, 'WITHSCORES', 'LIMIT', 0, ARGV[2])) do
  answer[#answer + 1] = entry
end
return answer
