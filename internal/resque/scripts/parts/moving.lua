-- The body of move.lua, which says what KEYS, ARGV and the answer are. A step of an operation does the same.
local list, to = KEYS[1], ARGV[1]
local later = to == 'own' or to == 'plain'
local length = redis.pcall('LLEN', list)
if type(length) == 'table' then return length end
if to ~= '' and to ~= 'here' then
  for key, read in pairs({[2] = 'SCARD', [3] = later and 'ZCARD' or 'LLEN', [4] = 'SCARD', [5] = ARGV[3] ~= '' and 'ZCARD' or nil}) do
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
local function delayable(as, bucket, stamps) -- a second of resque-scheduler's, or a place in our schedule that no other job has
  if to == 'own' then return not redis.call('ZSCORE', KEYS[3], as) end
  return type(redis.pcall('LLEN', KEYS[tonumber(bucket)])) == 'number' and type(redis.pcall('SCARD', KEYS[tonumber(stamps)])) == 'number'
end
local answer, pushed = {}, {}
for arg = 6, #ARGV, 10 do
  local index, job, as, lock, id, ends, next, time, bucket, stamps = unpack(ARGV, arg, arg + 9)
  local number = (arg - 6) / 10 + 1
  local at = (not later or delayable(as, bucket, stamps)) and find(tonumber(index), job)
  if at == -1 then answer[#answer + 1] = -number
  elseif at then
    answer[#answer + 1], moved = number, at - index
    redis.call('LSET', list, at, to == 'here' and as or mark)
    if to ~= 'here' then least, most, marks = math.min(least, at), math.max(most, at), marks + 1 end
    pushed[#pushed + 1] = as
    if to == 'own' then redis.call('ZADD', KEYS[3], time, as) end
    if to == 'plain' then
      redis.call('LPUSH', KEYS[tonumber(bucket)], as)
      redis.call('SADD', KEYS[tonumber(stamps)], 'delayed:' .. time)
      redis.call('ZADD', KEYS[3], time, time)
    end
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
