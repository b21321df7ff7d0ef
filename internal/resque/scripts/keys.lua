-- Says of keys which type they have, how long they stay and how many elements they have.
--
-- KEYS  any number
-- Returns {type, TTL in ms, elements} of each key, in one list, then the names of the commands that Redis refuses to this user.
--       A type is '' and a number -3 where the command that says it is refused. A string's elements are its bytes.
--
-- Atomic: the call. It writes nothing, and its time does not depend on the sizes of the keys.
local counts = {string = 'STRLEN', list = 'LLEN', set = 'SCARD', zset = 'ZCARD', hash = 'HLEN', stream = 'XLEN'}
local reply, refused = {}, {}
local function ask(command, key, unknown)
  local said = redis.pcall(command, key)
  if type(said) ~= 'table' then return said end
  if said.ok then return said.ok end
  refused[command] = true
  return unknown
end
for _, key in ipairs(KEYS) do
  local is = ask('TYPE', key, '')
  local n = #reply
  reply[n + 1], reply[n + 2] = is, ask('PTTL', key, -3)
  reply[n + 3] = counts[is] and ask(counts[is], key, -3) or -3
end
for command in pairs(refused) do reply[#reply + 1] = command end
return reply
