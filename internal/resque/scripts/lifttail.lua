-- Lifts what has cancelled jobs with the ids of those at the tail of a queue, or jobs at their places: a push with an id of the program's own has
-- just put them there, in the same transaction. Mostly nothing is cancelled, and then no id is looked at.
--
-- KEYS  1 cancelled   2 queue
-- ARGV  how many jobs   what precedes the id in the entry of a place
-- Returns 0, or 1 if anything was cancelled. An id is the last field of its payload, and its text has no escapes.
--
-- Atomic: the call.
if redis.call('ZCARD', KEYS[1]) == 0 then return 0 end
for from = -ARGV[1], -1, 500 do
  local entries = {}
  for _, job in ipairs(redis.call('LRANGE', KEYS[2], from, math.min(from + 499, -1))) do
    local id = string.match(job, '"id":"([^"\\]*)"}$')
    if id then
      entries[#entries + 1] = 'j:' .. id
      entries[#entries + 1] = ARGV[2] .. id
    end
  end
  if #entries > 0 then redis.call('ZREM', KEYS[1], unpack(entries)) end
end
return 1
