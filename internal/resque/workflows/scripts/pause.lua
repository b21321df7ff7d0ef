-- Pauses a workflow, or resumes it. What was sent runs; what comes next is not sent while it is paused.
--
-- KEYS  1 letters   2 hash   3 index   4 document   5 halted   6 queues   7 schedule   8 a queue
-- ARGV  1 name of queue 8   2 'pause' or 'resume'
-- Returns {'ok', '1' if it was paused before}, {'gone'}, or {'ended', state}: it is done, cancelled or expired, and nothing was
--       written.
--
-- Atomic: all of it. A resumed workflow goes on when the sweep looks at it, which is at once.
--@workflow
local f = functions()
local w = f.open(KEYS, ARGV[1], f.clock())
if not w then return {'gone'} end
if w.state == 'done' or w.state == 'cancelled' or w.state == 'expired' then return {'ended', w.state} end
local was = f.field(w, 'paused') or ''
if ARGV[2] == 'pause' then
  f.put(w, 'paused', '1')
else
  f.put(w, 'paused', false)
  f.look(w, w.now)
end
return f.finish(w, 'ok', was)
