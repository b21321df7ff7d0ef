-- Ends a run of a job that has a cursor.
--
-- keys  cursor
-- args  TTL in ms, or '' if the job is done and the cursor goes, then fields and values that are not written yet
function verbs.cursor(job, keys, args)
  if args[1] == '' then call('DEL', keys[1]) return end
  for i = 2, #args, 2 do call('HSET', keys[1], args[i], args[i + 1]) end
  call('PEXPIRE', keys[1], args[1])
end
