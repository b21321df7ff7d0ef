-- Asks many keys in one step. A client that sends each command by itself costs Redis more, and counts as many commands.
--
-- KEYS  of the commands, in their order: each command reads one key
-- ARGV  for each group of commands: its name, how many keys follow for it, how many arguments it has behind the key, the arguments
-- Returns for each key the answer, or the error with which Redis refuses the command. It writes nothing.
--
-- Atomic: all of it. So the caller bounds what it asks for.
local answer, key, at = {}, 0, 1
while at <= #ARGV do
  local args = tonumber(ARGV[at + 2])
  for _ = 1, tonumber(ARGV[at + 1]) do
    key = key + 1
    answer[key] = redis.pcall(ARGV[at], KEYS[key], unpack(ARGV, at + 3, at + 2 + args))
  end
  at = at + 3 + args
end
return answer
