-- Reserves jobs that wait in a queue or in our own schedule, so that commits end them, or removes those that have no text.
--
-- KEYS  1 leases   2 leased   3 the queue or the schedule
-- ARGV  'list' or 'schedule'   name of the queue   lease in ms   seed of ids, 16 characters   how many texts, or '' to
--       reserve all   the texts   then payloads (≤ 1000)
-- Returns {how many were there, then of each job that is reserved: id, lease, payload}.
--
-- Atomic: the call. Redis does it when out of memory, too.
--@tail
call('ZCARD', KEYS[1])
call('HLEN', KEYS[2])
call(ARGV[1] == 'list' and 'LLEN' or 'ZCARD', KEYS[3])
call('HDEL', KEYS[2], '')
local time, prefix, texts = call('TIME'), #ARGV[2] .. ':' .. ARGV[2], tonumber(ARGV[5])
local till = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3]) .. '.5'
local reply = {0}
for at = 6 + (texts or 0), #ARGV do
  local payload, effects = ARGV[at], not texts
  local there = ARGV[1] == 'list' and call('LREM', KEYS[3], 1, payload) or ARGV[1] ~= 'list' and call('ZREM', KEYS[3], prefix .. payload)
  for t = 6, 5 + (texts or 0) do effects = effects or find(payload, ARGV[t], 1, true) end
  reply[1] = reply[1] + there
  if there > 0 and effects then
    local id = tail(payload) or fresh(ARGV[4])
    while call('ZADD', KEYS[1], 'NX', till, prefix .. id) == 0 do id = fresh(ARGV[4]) end
    call('HSET', KEYS[2], prefix .. id, payload)
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = id, till, payload
  end
end
return reply
