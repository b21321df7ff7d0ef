-- A step of an operation that cancels jobs, one a change, or keeps the cancel of one for longer.
--
-- KEYS and ARGV are those of the step, and of each change those of cancel.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@cancelling
end
local function changed(answer) return answer[1] == 'new' and {1} or {} end
--@step
