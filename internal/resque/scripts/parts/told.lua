-- How brief.lua and briefqueues.lua end. If there is more to say than jobs, it stands behind them: how many of the tickets were not in the
-- record, or -1 less that if the record was removed; then key, error…, where the key of a lock is its number instead. broken is such pairs of
-- queues, or nil.
if missing > 0 or refused or broken or type(counted) == 'table' then
  jobs[#jobs + 1] = (missing > 0 or refused) and call('HEXISTS', record, 'entered') == 0 and -1 - missing or missing
  if type(counted) == 'table' then jobs[#jobs + 1] = KEYS[5]; jobs[#jobs + 1] = counted.err end
  for i = 1, broken and #broken or 0 do jobs[#jobs + 1] = broken[i] end
  for i = 1, refused and #refused or 0 do jobs[#jobs + 1] = refused[i] end
end
return jobs
