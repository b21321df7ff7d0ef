-- A step of an operation that puts jobs from the bin back into a queue, lane or failure list.
--
-- KEYS and ARGV are those of the step, and of each change those of parts/restoring.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@restoring
end
local function changed(answer) return {}, nil, answer[1], answer[2] end
--@step
