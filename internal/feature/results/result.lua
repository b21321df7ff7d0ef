-- Writes how a run of a job ended into the job's document, if the document is there. The end of a job that goes
-- on leaves a document that says cancelled as it is, and notes the state beside it.
--
-- keys  document, progress, and the list of log lines if they are captured
-- args  state, '1' if the job is over, TTL in ms, the try or '', progress or '', the run's name, how many of its
--       lines came earlier, how many lines follow, how many fields to remove follow these: the lines, the fields to
--       remove, and the fields and values to write
--@lines
function verbs.result(job, keys, args)
  local doc = keys[1]
  local was = call('HGET', doc, 'state')
  if not was then return end
  local first = 10
  local removed = first + args[8]
  local set = removed + args[9]
  call('HSET', doc, was == 'cancelled' and args[2] == '' and 'was' or 'state', args[1], unpack(args, set))
  call('HDEL', doc, unpack(args, removed, set - 1))
  if args[4] ~= '' then
    local tries = (tonumber(call('HGET', doc, 'tries') or '') or 0) + 1
    call('HSET', doc, 'tries', tries, 't' .. tries, args[4])
    call('HDEL', doc, 't' .. tries - 20)
  end
  if args[5] ~= '' then call('SET', keys[2], args[5]) end
  if keys[3] then keep(doc, keys[3], args[6], args[7] + 0, args, first, removed - 1) end
  for i = 1, #keys do call('PEXPIRE', keys[i], args[3]) end
end
