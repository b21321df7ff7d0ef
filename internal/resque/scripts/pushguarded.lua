-- Pushes jobs together with guards and effects. A job's rows are its guards, then its effects, then
-- the push into its queue or the schedule; soft rows come last.
--
-- KEYS  1 schedule   then the rows'
-- ARGV  one letter for each key, its type, as in commit.lua
--       then for each job: how many values its rows have, and the rows, see parts/rows.lua
-- Returns {'ok', number of jobs pushed, number of refusals, number of jobs left, then the refusals:
--       job, key, error…, the jobs whose guards did not hold…, the lists that were pushed to…}. Jobs
--       are numbered from 1. A refusal with the job '' is of a soft row: its job was pushed.
--
-- Atomic: the call. All rows of all jobs are proven before the first is written. If one is refused,
-- nothing is written for any job. Guards are read again before a job is written, because a job
-- before it may have changed them. The call is refused, whole, when out of memory.
--@rows
types = ARGV[1]
-- This writes nothing, and Redis refuses it whenever it would refuse the first write of a job.
local room = try('ZADD', KEYS[1], 'XX', 0, '')
if type(room) == 'table' and not string.find(room.err, '^WRONGTYPE') then return room end

local jobs, left, at = {}, {}, 2
while at <= #ARGV do
  local last = at + ARGV[at]
  ticket = tostring(#jobs + 1)
  jobs[#jobs + 1] = {at + 1, last}
  local why, key = prove(at + 1, last)
  if why and why ~= '' then refuse(ticket, why, key) end
  at = last + 1
end
if reply[3] > 0 then jobs = {} end
for i, job in ipairs(jobs) do
  ticket = tostring(i)
  local why, key = prove(job[1], job[2])
  if not why then why, key = write(job[1], job[2]) end
  if why == '' then left[#left + 1] = ticket
  elseif why then refuse(ticket, why, key)
  else reply[2] = reply[2] + 1 end
end
return finish(left)
