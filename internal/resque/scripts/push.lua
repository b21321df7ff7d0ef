-- Puts jobs at the tails of queues, and the queues into the set of queues: all or
-- nothing. Under MULTI a key of the wrong type would not keep the others from being written.
--
-- KEYS  1 queues   then the queues, each once
-- ARGV  for each queue: its name, how many jobs it gets, their payloads
-- Returns nothing.
--
-- Redis does not roll back a script, so every key is first read as its type.
redis.call('SCARD', KEYS[1])
for key = 2, #KEYS do redis.call('LLEN', KEYS[key]) end
local at = 1
for key = 2, #KEYS do
  local first, last = at + 2, at + 1 + ARGV[at + 1]
  redis.call('SADD', KEYS[1], ARGV[at])
  for from = first, last, 1000 do
    redis.call('RPUSH', KEYS[key], unpack(ARGV, from, math.min(from + 999, last)))
  end
  at = last + 1
end
