-- Moves jobs of our own schedule to resque-scheduler's, or to the tails of their queues.
--
-- KEYS  1 processes   2 schedule   3 queues   4 delayed_queue_schedule   then queues, lists of
--       seconds and timestamps:<item>
-- ARGV  for each job: member, score, number of the key of its list, the name of the queue or the
--       second, payload or item, number of the key of timestamps:<item> or 0 for a queue
-- Returns {jobs moved, {key, error…}}, or {-1} if a process has a lease.
--
-- Atomic: the call. A job that was removed or has another time by now stays as it is, and so does a
-- job whose keys Redis refuses. Redis allows an empty ZREMRANGEBYRANK as the first write when out of
-- memory, and then all that follow. A job is pushed before it is removed: an error in between doubles
-- it and loses nothing.
if #redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf', 'LIMIT', 0, 1) > 0 then return {-1} end
redis.call('SCARD', KEYS[3])
redis.call('ZCARD', KEYS[4])
redis.call('ZREMRANGEBYRANK', KEYS[2], 1, 0)
local moved, errors = 0, {}
local function proven(command, key)
  local answer = redis.pcall(command, key)
  if type(answer) ~= 'table' then return true end
  errors[#errors + 1] = key; errors[#errors + 1] = answer.err
end
for at = 1, #ARGV, 6 do
  local member, score, list, name, text, stamps = unpack(ARGV, at, at + 5)
  list, stamps = KEYS[tonumber(list)], KEYS[tonumber(stamps)]
  if redis.call('ZSCORE', KEYS[2], member) == score and proven('LLEN', list) and (not stamps or proven('SCARD', stamps)) then
    redis.call('RPUSH', list, text)
    if stamps then
      redis.call('SADD', stamps, 'delayed:' .. name)
      redis.call('ZADD', KEYS[4], name, name)
    else
      redis.call('SADD', KEYS[3], name)
    end
    redis.call('ZREM', KEYS[2], member)
    moved = moved + 1
  end
end
return {moved, errors}
