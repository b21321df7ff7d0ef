-- Writes what running jobs of a process say: that they run, how far they are, and captured log lines. A job's
-- commit removes the ticket in the same step as it writes the end, so a late note changes nothing.
--
-- KEYS  1 in-flight record   then for each note: document, progress, list of log lines
-- ARGV  for each note: ticket, TTL in ms, progress or '', the run's name, how many of its lines came earlier,
--       how many lines follow, how many values follow these: the lines, the fields and values of a job that has begun
-- Returns how many notes were written.
--
-- Atomic: the call. A note is written only while the record has its ticket, and only into a document that is
-- there. A document that says cancelled goes on to say so.
local call, try = redis.call, redis.pcall
--@lines
local at, written = 1, 0
for key = 2, #KEYS, 3 do
  local doc, progress, list, ttl = KEYS[key], KEYS[key + 1], KEYS[key + 2], ARGV[at + 1]
  local first = at + 7
  local last = first + ARGV[at + 5] - 1
  local to = last + ARGV[at + 6]
  local state = call('HEXISTS', KEYS[1], ARGV[at]) == 1 and try('HGET', doc, 'state')
  if type(state) == 'string' then
    written = written + 1
    if ARGV[at + 2] ~= '' then call('SET', progress, ARGV[at + 2], 'PX', ttl) end
    keep(doc, list, ARGV[at + 3], ARGV[at + 4] + 0, ARGV, first, last)
    if to > last then
      if state == 'cancelled' then call('HSET', doc, 'was', 'running', unpack(ARGV, last + 1, to))
      else
        call('HSET', doc, 'state', 'running', unpack(ARGV, last + 1, to))
        call('HDEL', doc, 'due', 'ended', 'result', 'left')
      end
      call('PEXPIRE', doc, ttl)
      call('PEXPIRE', progress, ttl)
    end
    if to >= first then call('PEXPIRE', list, ttl) end
  end
  at = to + 1
end
return written
