-- The body of unschedule.lua, which says what KEYS, ARGV and the answer are. A step of an operation does the same.
redis.call('SCARD', KEYS[2])
local errors, found, there = {}, 0, {}
local function goesOn(lock, member, as)
  local said = redis.pcall('HGETALL', lock)
  for i = 2, said.err and 0 or #said, 2 do
    if string.sub(said[i], -#member) == member then redis.call('HSET', lock, said[i - 1], string.sub(said[i], 1, -#member - 1) .. as) end
  end
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 1, 0) -- Redis allows it when out of memory, and then all that follow
for at = 1, #ARGV, 5 do
  local member, list, set, name, text = unpack(ARGV, at, at + 4)
  list = tonumber(list)
  local lock
  if not tonumber(set) then set, lock = string.match(set, '(%d+) (%d+)') end
  if redis.call('ZSCORE', KEYS[1], member) then
    local put = list ~= 0 and redis.pcall(list < 0 and 'LPUSH' or 'RPUSH', KEYS[math.abs(list)], text)
    if type(put) == 'table' then
      errors[#errors + 1] = KEYS[math.abs(list)]; errors[#errors + 1] = put.err
    else
      found, there[#there + 1], set = found + 1, (at + 4) / 5, tonumber(set)
      if list ~= 0 and name ~= '' then redis.pcall('SADD', KEYS[set], name) end
      if lock then goesOn(KEYS[tonumber(lock)], member, #name .. ':' .. name .. text) end
      if list ~= 0 or text == '' or name ~= '' then redis.call('ZREM', KEYS[1], member) end
      if list == 0 and text == '' and set > 0 then redis.pcall('HDEL', KEYS[set], name) end
      if list == 0 and text ~= '' then
        if set > 0 then goesOn(KEYS[set], member, name) end
        redis.call('ZADD', KEYS[1], text, name == '' and member or name)
      end
    end
  end
end
return {found, errors, there}
