-- A step of an operation that changes jobs of our own schedule.
--
-- KEYS and ARGV are those of the step, and of each change those of unschedule.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@unscheduling
end
local function changed(answer) return answer[3], answer[2][2] end
--@step
