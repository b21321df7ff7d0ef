-- Removes the lease of a leased job that has ended, and names the job's place in the answer, behind the key: so
-- the caller knows which of its jobs it has ended, and which another ended before.
--
-- keys  leases
function verbs.unlease(job, keys)
  call('ZREM', keys[1], job.ticket)
  fills(keys[1] .. ' ' .. job.ticket)
end
