-- A step of an operation that changes no job: it renews the lease and notes where the search is.
--
-- KEYS and ARGV are those of the step. Atomic: the call.
-- Returns what the step returns.
local function change() return {} end
local function changed(answer) return answer end
--@step
