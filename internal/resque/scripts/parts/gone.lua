-- gone has the document of a job that waited say that the job was cancelled. now is Redis's clock in ms; keys are
-- the document, the progress and the log lines. Any other document stays as it is.
-- The file that has this part defines call and try.
local function gone(now, keys)
  local document = try('HMGET', keys[1], 'state', 'ttl')
  local was, ttl = document[1], math.max(tonumber(document[2] or '') or 0, 1)
  if was ~= 'pending' and was ~= 'retrying' and was ~= 'snoozed' then return end
  call('HSET', keys[1], 'state', 'cancelled', 'was', was, 'ended', string.format('%.0f', now))
  for i = 1, 3 do call('PEXPIRE', keys[i], string.format('%.0f', ttl)) end
end
