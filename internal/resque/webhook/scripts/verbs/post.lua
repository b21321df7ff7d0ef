-- Writes into the stream of a webhook how a job ended. Without the stream its deliverers are gone for good.
--
-- keys  stream, state   args  about how many entries stay, the event, the job's arguments or ''
--
-- The number of an entry rises by one, so a deliverer sees how many were cut, or refused, before it read them.
function verbs.post(job, keys, args)
  if call('EXISTS', keys[1]) == 0 then return end
  local number = call('HINCRBY', keys[2], 'written', 1)
  call('XADD', keys[1], 'MAXLEN', '~', args[1], '*', 'n', string.format('%.0f', number), 'e', args[2], 'a', args[3])
end
