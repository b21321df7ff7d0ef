-- A step of an operation that takes the cancels of jobs back, one a change.
--
-- KEYS and ARGV are those of the step, and of each change those of lift.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@lifting
end
local function changed(answer) return answer == 1 and {1} or {} end
--@step
