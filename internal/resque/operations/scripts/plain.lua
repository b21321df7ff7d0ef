-- A step of an operation that changes jobs of resque-scheduler's.
--
-- KEYS and ARGV are those of the step, and of each change those of undelay.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@undelaying
end
local function changed(answer) return answer[3], answer[2][2] end
--@step
