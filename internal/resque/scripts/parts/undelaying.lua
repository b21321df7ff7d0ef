-- The body of undelay.lua, which says what KEYS, ARGV and the answer are. A step of an operation does the same.
if ARGV[1] ~= '' and redis.call('GET', KEYS[4]) ~= ARGV[1] then return {-1, {}, {}} end
redis.call('ZCARD', KEYS[1])
redis.call('ZCARD', KEYS[2])
redis.call('SCARD', KEYS[3])
redis.call('ZREMRANGEBYRANK', KEYS[2], 1, 0) -- Redis allows it when out of memory, and then all that follow
local errors, found, there = {}, 0, {}
local function try(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  errors[#errors + 1] = key; errors[#errors + 1] = reply.err
end
local hints = {} -- of each second: those to each item
local function forget(second, item)
  local from = tonumber(second)
  if not from then return end -- another program's
  if not hints[second] then
    local of = {}
    from = (from - 1) * 1000
    for _, hint in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], from, from + 999)) do
      local item = string.match(hint, '^%d+ %d+ (.*)') or ''
      of[item] = of[item] or {}
      table.insert(of[item], hint)
    end
    hints[second] = of
  end
  for _, hint in ipairs(hints[second][item] or {}) do redis.call('ZREM', KEYS[2], hint) end
  hints[second][item] = nil
end
for at = 5, #ARGV, 8 do
  local bucket, second, stamps, hint, list, name, text, precise = unpack(ARGV, at, at + 7)
  local push = tonumber(list) < 0 and 'LPUSH' or 'RPUSH'
  bucket, stamps, list = KEYS[tonumber(bucket)], KEYS[tonumber(stamps)], KEYS[math.abs(list)]
  local item = string.sub(stamps, ARGV[2] + 1)
  local long = false
  if hint ~= '' then
    redis.call('ZREM', KEYS[2], hint)
    long = (try('LLEN', bucket) or 0) > tonumber(ARGV[4])
  end
  if not long and (not list or try('LLEN', list)) and (try('LREM', bucket, 1, item) or 0) > 0 then
    found, there[#there + 1] = found + 1, (at + 3) / 8
    if hint == '' then forget(second, item) end
    if list and name ~= '' then
      redis.call(push, list, text)
      redis.call('SADD', KEYS[tonumber(precise)], name)
    elseif list then
      local place = redis.call('RPUSH', list, item)
      if precise ~= '' and #item <= tonumber(ARGV[3]) and place <= tonumber(ARGV[4]) then
        redis.call('ZADD', KEYS[2], precise, precise .. ' ' .. place .. ' ' .. item)
      end
      try('SADD', stamps, 'delayed:' .. text)
      redis.call('ZADD', KEYS[1], text, text)
    end
    if not redis.call('LPOS', bucket, item) then try('SREM', stamps, 'delayed:' .. second) end
    if redis.call('LLEN', bucket) == 0 then redis.call('ZREM', KEYS[1], second) end
  end
end
return {found, errors, there}
