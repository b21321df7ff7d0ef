-- Puts a job in the place of the one that holds its lock, if the holder still waits: lock and both jobs in
-- one step. In the same queue the job takes the holder's position. The proof says 'changed' if the lock has
-- another value, and 'gone' if the holder does not wait. Then the job is refused, and counted as by the verb lock.
--
-- keys  lock, queues, schedule, queue of the holder, queue of the job or the schedule, count of refusals
-- args  id, until what the job holds the lock, the lock's TTL in ms, due time in ms or '', name of the job's
--       queue, how much of its bytes precedes the payload, id of the holder, its value of the lock, how much
--       of that precedes the member of the schedule, how much of the member the payload
--@refusals
local found = {} -- by job: the holder waits. Only who takes the lock moves the holder.
local function holder(args)
  local member = string.sub(args[8], args[9] + 1)
  return member, string.sub(member, args[10] + 1)
end
function proofs.replace(job, keys, args)
  if call('HGET', keys[1], args[7]) ~= args[8] then return '?', 'changed' end
  local member, payload = holder(args)
  if not found[job.ticket] and not call('ZSCORE', keys[3], member) and not call('LPOS', keys[4], payload) then
    count(job, keys[6], args[7], args[3])
    return '?', 'gone'
  end
  found[job.ticket] = true
end
function verbs.replace(job, keys, args)
  local lock, id, due = keys[1], args[1], args[4]
  local member, payload = holder(args)
  local later = call('ZSCORE', keys[3], member)
  local at = not later and call('LPOS', keys[4], payload)
  if not later and not at then return 'the holder of the lock does not wait any more' end
  local now = string.format('%.0f', math.floor(job.now))
  call('PEXPIRE', lock, args[3]) -- Redis allows it as the first write when out of memory, and then the rest
  call('HSET', lock, id, args[2] .. ' ' .. now .. ' ' .. now .. '  ' .. job.bytes)
  if args[7] ~= id then call('HDEL', lock, args[7]) end
  local bytes = due ~= '' and job.bytes or string.sub(job.bytes, args[6] + 1)
  if at and keys[4] == keys[5] then
    call('LSET', keys[4], at, bytes)
    return
  end
  if later then call('ZREM', keys[3], member) else call('LREM', keys[4], 1, payload) end
  if due == '' then
    call('SADD', keys[2], args[5])
    call('RPUSH', keys[5], bytes)
  else
    call('ZADD', keys[5], due, bytes)
  end
end
