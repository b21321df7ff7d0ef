-- Commits how jobs ended: for each job it writes rows and removes the ticket. Its callers are a job's
-- own process, a reaper and the server that has leased it. A plain done job needs only an exchange's HDEL.
--
-- KEYS  1 record: ticket to bytes   2, 3 of the guard   4 stat:processed   5 stat:failed   then the rows'
-- ARGV  guard and value:  process, epoch   2 is the process record, 3 the tombstone
--                         dead, process    2 is the set of processes, where the process is fenced
--                         lease, ''        the record is go:leased, 2 and 3 are not read: a guard of each
--                                          job compares its lease
--       one letter for each key, its type: h hash, l list, s set, z sorted set, x stream, t string, '.' any
--       then for each job: ticket, '' or 'done' or 'failed', how many values its rows have, the rows.
--       parts/rows.lua says what rows are. Guards come first, then head or tail; soft rows come last.
-- Returns {'ok', tickets that were not in the record, number of refusals, number of jobs left, then the
--       refusals: ticket, key, error…, the tickets left…, the lists that were pushed to…}, or {'stale'},
--       {'gone'}, {'reaped'}. A refusal with the ticket '' is of a soft row or a total: its job has ended.
--
-- Atomic: the call. For each job every row is written and the ticket removed, or nothing is written and
-- the ticket stays.
-- ticket stays.
--@rows
record, types = KEYS[1], ARGV[3]
local strict = ARGV[1] ~= 'process' -- then a job without its ticket in the record is not committed
if ARGV[1] == 'process' then
  local epoch = call('HGET', KEYS[2], 'epoch')
  strict = call('EXISTS', KEYS[3]) == 1
  if epoch ~= ARGV[2] then return {strict and 'reaped' or epoch and 'stale' or 'gone'} end
elseif ARGV[1] == 'dead' and tonumber(call('ZSCORE', KEYS[2], ARGV[2]) or '0') >= 0 then
  return {'stale'}
end
call('HDEL', record, '') -- Redis allows this first write when out of memory, and then all that follow

local left, gone, done, failed, at = {}, {}, 0, 0, 4
while at <= #ARGV do
  local counts, last = ARGV[at + 1], at + 2 + ARGV[at + 2]
  ticket = ARGV[at]
  if strict and call('HEXISTS', record, ticket) == 0 then reply[2] = reply[2] + 1
  else
    local why, key = prove(at + 3, last, true)
    if not why then why, key = write(at + 3, last) end
    if why == '' then left[#left + 1] = ticket
    elseif why then refuse(ticket, why, key)
    else
      gone[#gone + 1] = ticket
      if counts ~= '' then done = done + 1 end
      if counts == 'failed' then failed = failed + 1 end
    end
  end
  at = last + 1
end
for i = 1, #gone, 1000 do
  local to = math.min(i + 999, #gone)
  reply[2] = reply[2] + to - i + 1 - call('HDEL', record, unpack(gone, i, to))
end
local answer = done > 0 and try('INCRBY', KEYS[4], done)
if type(answer) == 'table' then refuse('', answer.err, KEYS[4]) end
answer = failed > 0 and try('INCRBY', KEYS[5], failed)
if type(answer) == 'table' then refuse('', answer.err, KEYS[5]) end
return finish(left)
