-- A step of an operation that gives jobs of resque-scheduler's another queue, one a change.
--
-- KEYS and ARGV are those of the step, and of each change those of swap.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@swapping
end
local function changed(answer) return answer == 1 and {1} or {} end
--@step
