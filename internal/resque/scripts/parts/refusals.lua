-- Counts a job that a lock refuses, in the proof of its verb. The count is a string beside the lock: how many, a blank, the id of the
-- holder. Another holder's begins at one. It stays for the TTL that the lock of the refused job would have had. Where Redis refuses
-- the count, as when out of memory or to a user who may not write it, nothing is counted, and the job is refused all the same.
local counted = {} -- by job: a proof is asked again before another job of the call is written
local function count(job, key, id, ttl)
  if counted[job.ticket] then return end
  counted[job.ticket] = true
  local said = try('GET', key)
  local n, of
  if type(said) == 'string' then n, of = string.match(said, '^(%d+) (.*)$') end
  try('SET', key, string.format('%.0f', (of == id and n or 0) + 1) .. ' ' .. id, 'PX', ttl)
end
