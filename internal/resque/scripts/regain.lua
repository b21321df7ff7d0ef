-- Moves jobs of a fenced process out of its in-flight record for which that takes more than
-- a push: each with its effects, as in a commit, and the removal of its ticket, as one.
--
-- KEYS  1 in-flight record   2 processes   then the effects' keys in any order
-- ARGV  process, then for each job, highest ticket first: ticket, '' or 'failed', how many
--       effects, and for each of these: how many arguments, command, key, the arguments
-- Returns {jobs that went back, jobs filed, error…}. All effects of a job but the last can be
-- repeated.
redis.call('HLEN', KEYS[1])
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or '0') >= 0 then return {0, 0} end
redis.call('HDEL', KEYS[1], '') -- not refused when out of memory, and so nothing after it is
local reply, at = {0, 0}, 2
while at <= #ARGV do
  local ticket, n, effects = ARGV[at], ARGV[at + 1] == 'failed' and 2 or 1, tonumber(ARGV[at + 2])
  at = at + 3
  local ok = redis.call('HEXISTS', KEYS[1], ticket) == 1
  for _ = 1, effects do
    local last = at + 2 + ARGV[at]
    local done = ok and redis.pcall(ARGV[at + 1], KEYS[tonumber(ARGV[at + 2])], unpack(ARGV, at + 3, last))
    if type(done) == 'table' and done.err then
      ok = false
      reply[#reply + 1] = KEYS[tonumber(ARGV[at + 2])] .. ': ' .. done.err
    end
    at = last + 1
  end
  if ok then
    redis.call('HDEL', KEYS[1], ticket)
    reply[n] = reply[n] + 1
  end
end
return reply
