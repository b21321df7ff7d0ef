-- Moves jobs of a fenced process out of its in-flight record to the head of their queues.
--
-- KEYS  1 in-flight record   2 processes   3 recovered   4 queues   then queues
-- ARGV  process, then for each job, highest ticket first: ticket, key of the queue, its name,
--       prefix length, digest or '', count as it was read or '', count to set
-- Returns {jobs requeued, error…}. A job whose count has changed since is left for the next
-- call.
redis.call('HLEN', KEYS[1])
redis.call('HLEN', KEYS[3])
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or '0') >= 0 then return {0} end
redis.call('HDEL', KEYS[1], '')
local reply = {0}
for at = 2, #ARGV, 7 do
  local ticket, key, name, prefix, digest, was, count = unpack(ARGV, at, at + 6)
  local value = redis.call('HGET', KEYS[1], ticket)
  if value and (digest == '' or (redis.call('HGET', KEYS[3], digest) or '') == was) then
    local put = redis.pcall('LPUSH', KEYS[tonumber(key)], string.sub(value, prefix + 1))
    if type(put) == 'table' then
      reply[#reply + 1] = KEYS[tonumber(key)] .. ': ' .. put.err
    else
      redis.pcall('SADD', KEYS[4], name)
      if digest ~= '' then redis.call('HSET', KEYS[3], digest, count) end
      redis.call('HDEL', KEYS[1], ticket)
      reply[1] = reply[1] + 1
    end
  end
end
return reply
