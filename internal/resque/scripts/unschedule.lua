-- Takes jobs out of our own schedule and puts them elsewhere, or nowhere.
--
-- KEYS  1 schedule   2 queues   3 failed_queues   then queues and failure lists
-- ARGV  for each job: its member, list key or 0, number of the key of a set, what to add to it
--       or '', payload or failure record, or the time in ms to which it is delayed instead
-- Returns {jobs found, {key, error…}}.
--
-- A job that cannot be put elsewhere stays where it is.
redis.call('SCARD', KEYS[2])
local errors, found = {}, 0
redis.call('ZREMRANGEBYRANK', KEYS[1], 1, 0) -- not refused when out of memory, and so nothing after it is
for at = 1, #ARGV, 5 do
  local member, list, set, name, text = unpack(ARGV, at, at + 4)
  list = tonumber(list)
  if redis.call('ZSCORE', KEYS[1], member) then
    local put = list > 0 and redis.pcall('RPUSH', KEYS[list], text)
    if type(put) == 'table' then
      errors[#errors + 1] = KEYS[list]; errors[#errors + 1] = put.err
    else
      found = found + 1
      if name ~= '' then redis.pcall('SADD', KEYS[tonumber(set)], name) end
      if list == 0 and text ~= '' then redis.call('ZADD', KEYS[1], text, member)
      else redis.call('ZREM', KEYS[1], member) end
    end
  end
end
return {found, errors}
