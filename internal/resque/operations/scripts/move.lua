-- A step of an operation that takes jobs out of the list of a queue or lane.
--
-- KEYS and ARGV are those of the step, and of each change those of move.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@moving
end
local function changed(answer) return answer end
--@step
