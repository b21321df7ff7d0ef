-- Returns when the first job of each schedule is due, when the first workflow is to be looked at, and when a job is to be made of
-- the first group. Because the script reads the keys, a tracking connection watches them, including those that do not exist.
--
-- KEYS  schedules, and the indexes of workflows and of groups
-- Returns {seconds, microseconds, score of the first member of each key or ''…}.
local reply = redis.call('TIME')
for _, key in ipairs(KEYS) do
  reply[#reply + 1] = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or ''
end
return reply
