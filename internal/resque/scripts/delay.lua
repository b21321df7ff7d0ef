-- Delays jobs to a second, in the form of resque-scheduler: all of them or none.
--
-- KEYS  1 delayed_queue_schedule   2 delayed:<second>   3 precise
--       then timestamps:<item> for each job, which also contains the item
-- ARGV  second, 'delayed:<second>', length of the key before the item,
--       millisecond within the second before or '', the longest item and the longest list
--       that get a hint
-- Returns nothing.
--
-- A hint is '<millisecond> <place in the list> <item>': the place distinguishes equal jobs.
-- Each call that adds hints removes twice as many whose second is long over. If Ruby's
-- scheduler moves the jobs, no other process of the fleet may do so.
-- Redis does not roll back a script, so every key is first read as its type.
redis.call('ZCARD', KEYS[1])
redis.call('LLEN', KEYS[2])
redis.call('ZCARD', KEYS[3])
for key = 4, #KEYS do redis.call('SCARD', KEYS[key]) end
local hints = 0
for key = 4, #KEYS do
  local item = string.sub(KEYS[key], ARGV[3] + 1)
  local place = redis.call('RPUSH', KEYS[2], item)
  redis.call('SADD', KEYS[key], ARGV[2])
  if ARGV[4] ~= '' and #item <= tonumber(ARGV[5]) and place <= tonumber(ARGV[6]) then
    redis.call('ZADD', KEYS[3], ARGV[4], ARGV[4] .. ' ' .. place .. ' ' .. item)
    hints = hints + 1
  end
end
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[1])
if hints > 0 then
  local over = (redis.call('TIME')[1] - 60) * 1000
  local old = #redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', over, 'LIMIT', 0, 2 * hints)
  if old > 0 then redis.call('ZREMRANGEBYRANK', KEYS[3], 0, old - 1) end
end
