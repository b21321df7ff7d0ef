-- Writes into the documents of waiting jobs what an operator did with the jobs. A document whose job does not wait, by
-- what it says, stays as it is, and so does a key of another type.
--
-- KEYS  1 cancelled   then for each job: document, progress, list of log lines
-- ARGV  for each job: 'gone' or 'waits', its entry in cancelled, queue, class, when it is due in ms or '', how long
--       the document stays in ms from then
-- Returns nothing.
--
-- Atomic: the call, but not with what was done with the jobs before. A job that is gone takes its cancel along.
local call, try = redis.call, redis.pcall
--@gone
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 1, #ARGV, 6 do
  local first = at / 2 + 1.5
  local keys = {KEYS[first], KEYS[first + 1], KEYS[first + 2]}
  local state = try('HGET', keys[1], 'state')
  if ARGV[at] == 'gone' then
    gone(now, keys)
    try('ZREM', KEYS[1], ARGV[at + 1])
  elseif state == 'pending' or state == 'retrying' or state == 'snoozed' then
    call('HSET', keys[1], 'queue', ARGV[at + 2], 'class', ARGV[at + 3])
    local due = tonumber(ARGV[at + 4])
    if due then call('HSET', keys[1], 'due', ARGV[at + 4]) else call('HDEL', keys[1], 'due') end
    local stays = string.format('%.0f', ARGV[at + 5] + math.max(0, (due or 0) - now))
    for i = 1, 3 do call('PEXPIRE', keys[i], stays) end
  end
end
