-- Pushes a job with a priority to its queue, in front of jobs with a lower one.
--
-- keys  queue   args  how much of the job's bytes precedes the payload, the priority
--@ahead
function verbs.ahead(job, keys, args)
  insert(keys[1], string.sub(job.bytes, args[1] + 1), tonumber(args[2]))
  fills(keys[1])
end
