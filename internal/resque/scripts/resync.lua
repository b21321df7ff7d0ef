-- Raises a process's epoch, so that a request which arrives late changes nothing,
-- and returns the tickets of its in-flight record.
--
-- KEYS  1 in-flight record   2 process record   3 tombstone
-- Returns {'ok', epoch, ticket…} or {'reaped'|'gone'}.
redis.call('HLEN', KEYS[1])
if redis.call('HEXISTS', KEYS[2], 'epoch') == 0 then
  return {redis.call('EXISTS', KEYS[3]) == 1 and 'reaped' or 'gone'}
end
redis.call('HDEL', KEYS[2], '')
redis.call('HINCRBY', KEYS[2], 'epoch', 1)
local reply = {'ok', redis.call('HGET', KEYS[2], 'epoch')}
for _, ticket in ipairs(redis.call('HKEYS', KEYS[1])) do reply[#reply + 1] = ticket end
return reply
