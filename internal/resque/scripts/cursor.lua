-- Writes values of running jobs of a process: how far they are, and what they have done once.
--
-- KEYS  1 in-flight record   then for each value: the cursor of its job
-- ARGV  1 process   2 how many fields a cursor has at most   then for each value: ticket, field, value, version or 0,
--       TTL in ms
-- Returns for each value 1, 0 if the process no longer holds the job, -1 if the cursor is full, or why Redis refuses it.
--
-- Atomic: the call. A value is written only while the record has the ticket: a job's commit, and a recovery, removes it.
-- A value with a version does not replace one of a higher version of the same run, so calls may overtake each other.
local call, try = redis.call, redis.pcall
local answers = {}
for i = 2, #KEYS do
  local at, key = 5 * i - 7, KEYS[i]
  local ticket, field, version = ARGV[at], ARGV[at + 1], ARGV[at + 3] + 0
  local run, answer = ARGV[1] .. ':' .. ticket, 0
  if call('HEXISTS', KEYS[1], ticket) == 1 then
    answer = 1
    local known = try('HMGET', key, 'run', 'version', field)
    if known.err then answer = known.err
    elseif version == 0 and not known[3] and call('HLEN', key) >= ARGV[2] + 0 then answer = -1
    elseif version == 0 or known[1] ~= run or (tonumber(known[2] or '') or 0) < version then
      call('HSET', key, field, ARGV[at + 2])
      if version > 0 then call('HSET', key, 'run', run, 'version', version) end
      call('PEXPIRE', key, ARGV[at + 4])
    end
  end
  answers[i - 1] = answer
end
return answers
