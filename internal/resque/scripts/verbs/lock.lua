-- Gives a job a lock, unless another job holds it. If one does, the caller is given Redis's time, the
-- length of the holder's id, the id and the lock's value. It is asked what to do if the job may take the
-- lock all the same: in the holder's place, or because the holder was not seen for long.
--
-- A refused job is counted: see parts/refusals.lua.
--
-- keys  lock, count of refusals
-- args  id, until what the job holds it, the lock's TTL in ms, '1' to replace a holder,
--       for how many ms a holder that was seen is believed
--@refusals
local function now(job) return string.format('%.0f', math.floor(job.now)) end
function proofs.lock(job, keys, args)
  local held = try('HGETALL', keys[1])
  if held.err then return held.err end
  if #held == 0 then return end
  local time = now(job)
  local hold, seen = string.match(held[2], '^(%S*) %S* (%d+) ')
  local stays = args[4] ~= '1' and (hold == 'time' or seen and time - seen < args[5] + 0)
  if args[4] ~= '1' then count(job, keys[2], held[1], args[3]) end
  return stays and '' or '?', time .. ' ' .. #held[1] .. ' ' .. held[1] .. held[2]
end
function verbs.lock(job, keys, args)
  local time = now(job)
  call('HSET', keys[1], args[1], args[2] .. ' ' .. time .. ' ' .. time .. '  ' .. job.bytes)
  local bound = try('PEXPIRE', keys[1], args[3])
  if type(bound) == 'table' then
    call('HDEL', keys[1], args[1])
    return bound.err
  end
end
