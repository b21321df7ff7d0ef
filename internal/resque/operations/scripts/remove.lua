-- A step of an operation that removes failures.
--
-- KEYS and ARGV are those of the step, and of each change those of remove.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@removing
end
local function changed(answer) -- the hindmost first, as they go into the bin
  local there = {}
  for i = #answer, 1, -1 do there[#there + 1] = answer[i] end
  return there
end
--@step
