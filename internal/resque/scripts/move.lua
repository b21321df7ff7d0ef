-- Takes jobs out of a list, each known by its bytes, because another may be at its place by now. It
-- puts them elsewhere, or nowhere, or changes them where they are. All of it is one step.
--
-- KEYS  1 list   2 queues   3 list to which the jobs go   4 lanes   5 turns   then locks of unique jobs
-- ARGV  1 'head', 'tail', 'here' or '' for nowhere   2 name of the queue they go to or ''
--       3 member of lanes and 4 name among the turns, of the lane they go to, or ''
--       5 how many elements the searches may look at
--       then for each job: index where it was read, its bytes, the bytes as which it goes on,
--       number of its lock or 0, its id, how its lock's value ends, how it then ends
-- Returns the numbers of the jobs that were there and, negative, of those not looked for.
--
-- At the head the last of the jobs comes first, as with LPUSH.
--
-- A job is first replaced by a mark, so that of equal ones each is taken once. The LTRIM trims
-- nothing: Redis allows it as the first write when out of memory, and then all that follow.
local list, to = KEYS[1], ARGV[1]
local length = redis.pcall('LLEN', list)
if type(length) == 'table' then return length end
if to ~= '' and to ~= 'here' then
  for key, read in pairs({[2] = 'SCARD', [3] = 'LLEN', [4] = 'SCARD', [5] = ARGV[3] ~= '' and 'ZCARD' or nil}) do
    local reply = redis.pcall(read, KEYS[key])
    if type(reply) == 'table' then return reply end
  end
end
if length == 0 then return {} end
redis.call('LTRIM', list, 0, -1)
local left, moved, least, most, marks, mark = tonumber(ARGV[5]), 0, length, 0, 0, '\0goworker took this job away'
local function find(index, job)
  for _, at in ipairs({index + moved, index}) do
    if at >= 0 and redis.call('LINDEX', list, at) == job then return at end
  end
  local from = math.max(0, index + moved - 200)
  for i, element in ipairs(redis.call('LRANGE', list, from, from + 400)) do
    if element == job then return from + i - 1 end
  end
  if left <= 0 then return -1 end
  local at = redis.call('LPOS', list, job)
  left = left - (at or length) - 1
  return at
end
local answer, pushed = {}, {}
for arg = 6, #ARGV, 7 do
  local index, job, as, lock, id, ends, next = unpack(ARGV, arg, arg + 6)
  local number = (arg - 6) / 7 + 1
  local at = find(tonumber(index), job)
  if at == -1 then answer[#answer + 1] = -number
  elseif at then
    answer[#answer + 1], moved = number, at - index
    redis.call('LSET', list, at, to == 'here' and as or mark)
    if to ~= 'here' then least, most, marks = math.min(least, at), math.max(most, at), marks + 1 end
    pushed[#pushed + 1] = as
    lock = KEYS[tonumber(lock)]
    local value = lock and redis.pcall('HGET', lock, id)
    if type(value) == 'string' then
      if to == '' then redis.call('HDEL', lock, id)
      elseif #ends > 0 and string.sub(value, -#ends) == ends then redis.call('HSET', lock, id, string.sub(value, 1, -#ends - 1) .. next) end
    end
  end
end
if marks > 0 then redis.call('LREM', list, least + most < length and marks or -marks, mark) end
if to == 'tail' then for i = 1, #pushed do redis.call('RPUSH', KEYS[3], pushed[i]) end end
if to == 'head' then for i = 1, #pushed do redis.call('LPUSH', KEYS[3], pushed[i]) end end
if #pushed > 0 and (to == 'head' or to == 'tail') then
  if ARGV[2] ~= '' then redis.call('SADD', KEYS[2], ARGV[2]) end
  if ARGV[3] ~= '' then
    redis.call('SADD', KEYS[4], ARGV[3])
    redis.call('ZADD', KEYS[5], 0, ARGV[4])
  end
end
return answer
