-- The common part of exchange.lua and take.lua: they read ARGV behind at, and answer with errors.
local KEYS, ARGV, type, guarded = KEYS, ARGV, type, redis.pcall -- a local is found faster
local function arg() at = at + 1; return ARGV[at] end
local function number() return tonumber(arg()) end
local function try(key, command, ...) -- the reply and true, or nothing where Redis refuses the command
  local reply = guarded(command, KEYS[key], ...)
  if type(reply) ~= 'table' or not reply.err then return reply, true end
  errors[#errors + 1] = KEYS[key]; errors[#errors + 1] = reply.err
end
