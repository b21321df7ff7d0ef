-- Raises a process's epoch, so that a request which arrives late changes nothing,
-- and returns the tickets of its in-flight record. It removes payloads whose tickets are gone: see parts/apart.lua.
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
local fields, has, spent = redis.call('HKEYS', KEYS[1]), {}, {''}
for i, field in ipairs(fields) do reply[i + 2], has[field] = field, true end
for _, field in ipairs(has.apart and fields or {}) do
  if string.find(field, '^p%d+$') and not has[string.sub(field, 2)] then spent[#spent + 1] = field end
end
local gone = 0
for i = 1, #spent, 1000 do gone = gone + redis.call('HDEL', KEYS[1], unpack(spent, i, math.min(i + 999, #spent))) end
if gone > 0 and redis.call('HINCRBY', KEYS[1], 'apart', -gone) <= 0 then redis.call('HDEL', KEYS[1], 'apart') end
return reply
