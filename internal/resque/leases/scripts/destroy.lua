-- Removes jobs from the head of a queue. A job whose end has effects is reserved, and a commit ends it.
--
-- KEYS  1 leases   2 leased   3 queue   4 set that has its name
-- ARGV  most jobs (≤ 1000)   most bytes, about   lease in ms   seed of ids, 16 characters   name of the queue   the texts…
-- Returns {how many are gone from the queue, 1 if it has more, then of each job that is reserved: id, lease, payload}.
--
-- Atomic: the call. The name goes with the last job. Redis does it when out of memory, too.
--@tail
call('ZCARD', KEYS[1])
call('HLEN', KEYS[2])
call('LLEN', KEYS[3])
call('SCARD', KEYS[4])
call('HDEL', KEYS[2], '')
local time, prefix = call('TIME'), #ARGV[5] .. ':' .. ARGV[5]
local till = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3]) .. '.5'
local reply, count, room = {0, 1}, 0, tonumber(ARGV[2])
while count < tonumber(ARGV[1]) and room > 0 do
  local payload = call('LPOP', KEYS[3])
  if not payload then
    call('SREM', KEYS[4], ARGV[5])
    reply[2] = 0
    break
  end
  count, room = count + 1, room - #payload
  for t = 6, #ARGV do
    if find(payload, ARGV[t], 1, true) then
      local id = tail(payload) or fresh(ARGV[4])
      while call('ZADD', KEYS[1], 'NX', till, prefix .. id) == 0 do id = fresh(ARGV[4]) end
      call('HSET', KEYS[2], prefix .. id, payload)
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3] = id, till, payload
      break
    end
  end
end
reply[1] = count
return reply
