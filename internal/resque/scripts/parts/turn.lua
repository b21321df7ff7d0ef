-- The common part of exchange.lua and take.lua: they read ARGV behind at, and answer with errors.
local function arg() at = at + 1; return ARGV[at] end
local function number() return tonumber(arg()) end
local function try(key, command, ...) -- the reply and true, or nothing where Redis refuses the command
  local reply = redis.pcall(command, KEYS[key], ...)
  if type(reply) ~= 'table' or not reply.err then return reply, true end
  errors[#errors + 1] = KEYS[key]; errors[#errors + 1] = reply.err
end
