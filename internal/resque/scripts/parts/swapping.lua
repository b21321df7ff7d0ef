-- The body of swap.lua, which says what KEYS, ARGV and the answer are. A step of an operation does the same.
for key, read in ipairs({'LLEN', 'SCARD', 'SCARD'}) do
  local reply = redis.pcall(read, KEYS[key])
  if type(reply) == 'table' then return reply end
end
local at = redis.call('LPOS', KEYS[1], ARGV[2])
if not at then return 0 end
redis.call('LTRIM', KEYS[1], 0, -1)
redis.call('LSET', KEYS[1], at, ARGV[3])
redis.call('SADD', KEYS[3], 'delayed:' .. ARGV[1])
if not redis.call('LPOS', KEYS[1], ARGV[2]) then redis.call('SREM', KEYS[2], 'delayed:' .. ARGV[1]) end
return 1
