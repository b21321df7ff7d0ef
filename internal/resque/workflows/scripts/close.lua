-- Closes the open join of a workflow: it counts one member less, which 'open' held.
--
-- KEYS  1 to 8 as in parts/workflow.lua
-- ARGV  1 name of queue 8
-- Returns 'ok' and the workflow's state; 'gone': there is no such workflow; 'refused', why, key.
--
-- Atomic: all. A join that is closed stays so: the same call may be made again.
--@workflow
local f = functions()
local w = f.open(KEYS, ARGV[1], f.clock())
if not w then return {'gone'} end
if w.state ~= 'done' and f.field(w, 'open') then f.shut(w) end
return f.finish(w, 'ok', w.state)
