-- Reads the jobs whose leases have ended.
--
-- KEYS  1 leases   2 leased   3 returned   4 jump
-- ARGV  most jobs (≤ 1000)   most bytes of payloads, about; one job is read in any case
-- Returns {now in ms, when the first lease ends that was not read or '', how many jobs have no lease, then of each job:
--       place, lease, payload, 'done' if an ack came after the same bytes went back, or ''}.
--
-- Atomic: the call. It removes leases that have no job, and writes nothing else. While jump says how far Redis's clock
-- jumped ahead, leases end so much later.
local time, jump = redis.call('TIME'), redis.pcall('GET', KEYS[4])
local now = time[1] * 1000 + math.floor(time[2] / 1000)
jump = tonumber(string.match(type(jump) == 'string' and jump or '', '^(%d+) ') or 0)
local went, missing = redis.call('HLEN', KEYS[3]) > 0, redis.call('HLEN', KEYS[2]) - redis.call('ZCARD', KEYS[1])
local till = string.format('%.0f', now - jump)
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', till, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local reply, room, at, removed = {now, '', missing}, tonumber(ARGV[2]), 1, 0
while at < #due and room > 0 do
  local place, lease = due[at], due[at + 1]
  local payload = redis.call('HGET', KEYS[2], place)
  if payload then
    local mark = went and redis.call('HGET', KEYS[3], place)
    local done = mark and string.sub(mark, 1, 4) == 'done' and string.sub(mark, 6, 45) == redis.sha1hex(payload)
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = place, lease, payload, done and 'done' or ''
    room = room - #payload
  else removed = removed + redis.call('ZREM', KEYS[1], place) end
  at = at + 2
end
local first = due[at + 1]
if not first then
  first = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'WITHSCORES', 'LIMIT', #due / 2 - removed, 1)[2]
end
if first then reply[2] = string.format('%.0f', math.ceil(tonumber(first)) + jump) end
return reply
