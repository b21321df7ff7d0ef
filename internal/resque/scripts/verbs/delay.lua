-- Delays jobs to a second, in the form of resque-scheduler.
--
-- keys  delayed_queue_schedule, delayed:<second>, precise, then timestamps:<item> for each job, which also
--       contains the item
-- args  second, 'delayed:<second>', length of the key before the item, millisecond within the second before
--       or '', the longest item and the longest list that get a hint
--
-- A hint is '<millisecond> <place in the list> <item>': the place distinguishes equal jobs. Each row that
-- adds hints removes twice as many whose second is long over. If Ruby's scheduler moves the jobs, no other
-- process of the fleet may do so.
function verbs.delay(job, keys, args)
  local hints = 0
  for i = 4, #keys do
    local item = string.sub(keys[i], args[3] + 1)
    local place = call('RPUSH', keys[2], item)
    call('SADD', keys[i], args[2])
    if args[4] ~= '' and #item <= tonumber(args[5]) and place <= tonumber(args[6]) then
      call('ZADD', keys[3], args[4], args[4] .. ' ' .. place .. ' ' .. item)
      hints = hints + 1
    end
  end
  call('ZADD', keys[1], args[1], args[1])
  if hints > 0 then
    local over = math.floor(job.now / 1000 - 60) * 1000
    local old = #call('ZRANGEBYSCORE', keys[3], '-inf', over, 'LIMIT', 0, 2 * hints)
    if old > 0 then call('ZREMRANGEBYRANK', keys[3], 0, old - 1) end
  end
end
