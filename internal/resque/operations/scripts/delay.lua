-- A step of an operation that puts delayed jobs from the bin back into their schedules.
--
-- KEYS and ARGV are those of the step, and of each change those of parts/delaying.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@delaying
end
local function changed(answer) return {}, nil, answer[1], answer[2] end
--@step
