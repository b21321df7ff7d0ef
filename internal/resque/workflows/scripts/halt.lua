-- Cancels a workflow: nothing more of it is sent, and its sent steps do not run. An open batch is closed.
--
-- KEYS  1 letters   2 hash   3 index   4 document   5 halted   6 queues   7 schedule   8 a queue
-- ARGV  1 name of queue 8
-- Returns {'ok', state before}, {'gone'}, or {'ended', state}: nothing was written. A workflow that was cancelled before has
--       ended too.
--
-- Atomic: all of it. Sent steps become x when a worker takes them, and waiting ones stay as they are. The sweep sends the
-- handlers of what is complete by now.
--@workflow
local f = functions()
local w = f.open(KEYS, ARGV[1], f.clock())
if not w then return {'gone'} end
local was = w.state
if was ~= 'running' and was ~= 'failed' and was ~= 'retrying' then return {'ended', was} end
f.become(w, 'cancelled')
f.put(w, 'again', false)
if f.field(w, 'open') then f.shut(w) end
f.look(w, w.now)
return f.finish(w, 'ok', was)
