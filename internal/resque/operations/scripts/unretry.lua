-- A step of an operation that takes back the retries of failures whose jobs still wait, one a change.
--
-- KEYS and ARGV are those of the step, and of each change those of parts/unretrying.lua. Atomic: the call.
-- Returns what the step returns.
local function change(KEYS, ARGV)
--@unretrying
end
local function changed(answer) return answer == 1 and {1} or {} end
--@step
