-- What a script reads of a payload, which it does not parse: the id and when the job expires, where they stand last. In
-- valid JSON an unescaped ,"id":" cannot stand within a string, and the last brace closes the object. A payload of another
-- form has no id here, and Go looks once more.
local call, sub, find, match = redis.call, string.sub, string.find, string.match
local function tail(payload) -- its id or nil, and when it expires or nil
  local at = find(payload, ',"id":"', -35, true) or find(payload, ',"id":"', -150, true)
  while at do
    local id = match(payload, '^([^"\\%c]+)"}$', at + 7)
    if id then return id, sub(payload, at - 27, at - 14) == ',"expires_at":' and tonumber(sub(payload, at - 13, at - 1)) or nil end
    at = find(payload, ',"id":"', at + 1, true)
  end
end
local made, digits = 0, '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
local function fresh(seed) -- an id for a job without one. The last 32 bits are 0: it is not delayed
  made = made + 1
  local function digit(n) return sub(digits, n % 32 + 1, n % 32 + 1) end
  return seed .. digit(math.floor(made / 256)) .. digit(math.floor(made / 8)) .. digit(made % 8 * 4) .. '0000000'
end
