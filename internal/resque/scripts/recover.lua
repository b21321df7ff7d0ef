-- Moves jobs of a fenced process out of its in-flight record: to the head of their
-- queues, or to the failures where they were found in too many dead processes.
--
-- KEYS  1 in-flight record   2 processes   3 recovered   4 queues   5 failed_queues
--       then queues and failure lists
-- ARGV  process, then for each job, highest ticket first: ticket, 'queue' or 'fail', key,
--       member of queues or failed_queues or '', prefix length or failure record,
--       digest or '', count as it was read or '', count to set
-- Returns {jobs requeued, jobs filed, error…}. A job whose count has changed since is left
-- for the next call.
redis.call('HLEN', KEYS[1])
redis.call('HLEN', KEYS[3])
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or '0') >= 0 then return {0, 0} end
redis.call('HDEL', KEYS[1], '')
local reply = {0, 0}
for at = 2, #ARGV, 8 do
  local ticket, where, key, name, what, digest, was, count = unpack(ARGV, at, at + 7)
  local value = redis.call('HGET', KEYS[1], ticket)
  if value and (digest == '' or (redis.call('HGET', KEYS[3], digest) or '') == was) then
    local queue = where == 'queue'
    local put = queue and redis.pcall('LPUSH', KEYS[tonumber(key)], string.sub(value, what + 1))
      or redis.pcall('RPUSH', KEYS[tonumber(key)], what)
    if type(put) == 'table' then
      reply[#reply + 1] = KEYS[tonumber(key)] .. ': ' .. put.err
    else
      if name ~= '' then redis.pcall('SADD', KEYS[queue and 4 or 5], name) end
      if digest ~= '' then redis.call('HSET', KEYS[3], digest, count) end
      redis.call('HDEL', KEYS[1], ticket)
      local n = queue and 1 or 2
      reply[n] = reply[n] + 1
    end
  end
end
return reply
