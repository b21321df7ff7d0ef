-- Makes jobs of groups whose time has come. A group that waits for more items is put off.
--
-- KEYS  1 index of the groups   then for each group its list, its queue, and the set with the queue's name
-- ARGV  1 '1' for all of them, or only those whose time has come   then the ids of the groups
-- Returns for each group 'flushed <items>', 'waits <ms>', 'gone', or why it cannot be flushed now.
--
-- Atomic: the call. The payload of a group's job is whole before the group is removed. A group that Redis refuses is left as
-- it is, and is due again after ten seconds. A group that began in the future is flushed: Redis's clock went back.
local call, try = redis.call, redis.pcall
--@group
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function flush(id, list, queue, names)
  readable('LLEN', list)
  local g = open(list)
  if not g then
    call('ZREM', KEYS[1], id)
    return 'gone'
  end
  local at = due(g)
  if ARGV[1] ~= '1' and at > now and g.began <= now then
    call('ZREM', KEYS[1], '') -- Redis allows it as the first write when out of memory, and then the rest
    call('ZADD', KEYS[1], at, id)
    return 'waits ' .. at - now
  end
  return 'flushed ' .. push(list, KEYS[1], queue, names, id, g)
end
local answer = {}
for i = 1, #ARGV - 1 do
  local id = ARGV[i + 1]
  local ok, said = pcall(flush, id, KEYS[3 * i - 1], KEYS[3 * i], KEYS[3 * i + 1])
  if not ok then
    said = type(said) == 'table' and said.err or tostring(said)
    call('ZREM', KEYS[1], '')
    call('ZADD', KEYS[1], 'XX', now + 10000, id)
  end
  answer[i] = said
end
return answer
