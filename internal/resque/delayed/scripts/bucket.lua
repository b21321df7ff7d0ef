-- Moves the first jobs of one of resque-scheduler's seconds to the tails of their queues. Jobs
-- that no worker could run go to the failures.
--
-- KEYS  1 delayed_queue_schedule   2 delayed:<second>   3 the schedulers' lock   4 queues
--       5 failed_queues   6 delayed:<later second>   then timestamps:<item>, queues and failure lists
-- ARGV  holder of the lock, second, later second, length of the key before the item,
--       then for each job: timestamps key, list key, number of the key of a set,
--       what to add to it or '', payload or failure record
-- Returns {jobs moved, 1 if another scheduler has the lock, {key, error…}}.
--
-- The script compares the items with the present ones and stops at the first that differs: another
-- program removed one meanwhile. A job whose list is of the wrong type is delayed to the later
-- second, and so is a second whose bucket is. The LTRIM trims nothing: Redis allows it as the
-- first write when out of memory.
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return {0, 1, {}} end
redis.call('ZCARD', KEYS[1])
redis.call('SCARD', KEYS[4])
redis.call('LLEN', KEYS[6])
local trimmed = redis.pcall('LTRIM', KEYS[2], 0, -1)
if trimmed.err then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 1, 0)
  redis.call('ZADD', KEYS[1], 'XX', ARGV[3], ARGV[2])
  return {0, 0, {KEYS[2], trimmed.err}}
end
local member, errors, moved, jobs, named = 'delayed:' .. ARGV[2], {}, 0, {}, {}
local items = (#ARGV - 4) / 5
local there = items > 0 and redis.call('LRANGE', KEYS[2], 0, items - 1) or {}
for i = 1, items do
  local stamps, list, set, name, text = unpack(ARGV, 5 * i, 5 * i + 4)
  stamps = KEYS[tonumber(stamps)]
  local item = string.sub(stamps, ARGV[4] + 1)
  if there[i] ~= item then break end
  if jobs[list] == nil then
    local reply = redis.pcall('LLEN', KEYS[tonumber(list)])
    jobs[list] = type(reply) ~= 'table' and {}
    if not jobs[list] then errors[#errors + 1] = KEYS[tonumber(list)]; errors[#errors + 1] = reply.err end
    if jobs[list] and name ~= '' then named[#named + 1] = KEYS[tonumber(set)]; named[#named + 1] = name end
  end
  if jobs[list] then jobs[list][#jobs[list] + 1] = text
  else
    redis.call('RPUSH', KEYS[6], item)
    redis.pcall('SADD', stamps, 'delayed:' .. ARGV[3])
    redis.call('ZADD', KEYS[1], ARGV[3], ARGV[3])
  end
  redis.pcall('SREM', stamps, member)
  moved = moved + 1
end
for i = 1, #named, 2 do redis.pcall('SADD', named[i], named[i + 1]) end
for list, texts in pairs(jobs) do
  for from = 1, texts and #texts or 0, 1000 do
    redis.call('RPUSH', KEYS[tonumber(list)], unpack(texts, from, math.min(from + 999, #texts)))
  end
end
redis.call('LTRIM', KEYS[2], moved, -1)
if redis.call('LLEN', KEYS[2]) == 0 then redis.call('ZREM', KEYS[1], ARGV[2]) end
return {moved, 0, errors}
