-- Takes the job of a retried failure out of its queue or lane again, and gives the record the bytes that it had before.
-- KEYS  1 failure list   2 list of the queue or lane   of a job with a document: 3 document
-- ARGV  1 index of the record   2 the record   3 the record as it was   4 index of the job   5 the job
-- Returns 1, or 0 if one of both is not there any more: a worker took the job, or the record was removed.
local function find(list, index, element)
  local from = math.max(0, index - 500)
  local near = redis.call('LRANGE', list, from, index + 100)
  if near[index - from + 1] == element then return index end
  for i = #near, 1, -1 do
    if near[i] == element then return from + i - 1 end
  end
end
local record = find(KEYS[1], tonumber(ARGV[1]), ARGV[2])
local job = record and find(KEYS[2], tonumber(ARGV[4]), ARGV[5])
if not job then return 0 end
redis.call('LTRIM', KEYS[2], 0, -1) -- Redis allows it when out of memory, and then all that follow
local mark, length = '\0goworker took this job away', redis.call('LLEN', KEYS[2])
redis.call('LSET', KEYS[2], job, mark)
redis.call('LREM', KEYS[2], job + job < length and 1 or -1, mark)
redis.call('LSET', KEYS[1], record, ARGV[3])
if KEYS[3] and redis.pcall('HGET', KEYS[3], 'state') == 'pending' then redis.call('HSET', KEYS[3], 'state', 'failed') end
return 1
