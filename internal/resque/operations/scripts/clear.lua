-- A step of an operation that puts a queue and its lanes into the bin.
--
-- KEYS and ARGV are those of the step, and of each change those of parts/clearing.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@clearing
end
local function changed(answer) return {}, nil, answer[1], answer[2] end
--@step
