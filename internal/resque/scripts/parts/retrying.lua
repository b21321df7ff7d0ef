-- The body of retry.lua, which says what KEYS, ARGV and the answer are. A step of an operation does the same.
local list, index, record = KEYS[1], tonumber(ARGV[1]), ARGV[2]
if redis.call('LINDEX', list, index) ~= record then
  local from = math.max(0, index - 200) -- each removal moves the records behind it
  local near = redis.call('LRANGE', list, from, index)
  index = nil
  for i = #near, 1, -1 do
    if near[i] == record then index = from + i - 1 break end
  end
  index = index or ARGV[8] == 'seek' and redis.call('LPOS', list, record)
  if not index then return 0 end
end
redis.call('SCARD', KEYS[2])
redis.call('LLEN', KEYS[3])
redis.call('SADD', KEYS[2], ARGV[4])
redis.call(ARGV[9] == 'head' and 'LPUSH' or 'RPUSH', KEYS[3], ARGV[5])
redis.call('LSET', list, index, ARGV[3])
if KEYS[4] and redis.pcall('HGET', KEYS[4], 'state') == 'failed' then
  redis.call('HSET', KEYS[4], 'state', 'pending', 'queue', ARGV[4], 'class', ARGV[6])
  redis.call('HDEL', KEYS[4], 'ended', 'due')
  for key = 4, 6 do redis.call('PEXPIRE', KEYS[key], ARGV[7]) end
end
return 1
