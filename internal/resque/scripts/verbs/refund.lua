-- Gives back to a rate the start of a job that was not run, once. If only the job's lane has the rate,
-- the lane's turn, which was put off until the next start, comes now.
--
-- keys  limits, rate [turns]   args  the limit's name [the lane's]
function verbs.refund(job, keys, args)
  if call('HEXISTS', record, job.ticket) == 0 then return end
  local said, due = call('HGET', keys[1], args[1]) or '', tonumber(call('GET', keys[2]) or '')
  local every = tonumber(string.match(said, '^([%d.]+) ?%d*$') or '') or said ~= '' and 1000000
  if every and due then call('SET', keys[2], string.format('%.2f', due - every), 'KEEPTTL') end
  if keys[3] then call('ZADD', keys[3], 'XX', 'LT', string.format('%.0f', job.now * 1000), args[2]) end
end
