-- expire: the deadline of a workflow has passed. Its own error handler is called once, and a batch is closed. Atomic: all.
--@sweep
-- KEYS  1 to 8 as above   ARGV  1 name of queue 8   2 the failure, JSON
-- Returns {'ok'}; {'gone'}; {state} if it has ended, or its deadline was put off; or {'refused', why, key}.
local ends = tonumber(field(w, 'until') or '')
if w.state ~= 'running' and w.state ~= 'retrying' or not ends or ends > now then return {w.state} end
w.failure = ARGV[2]
put(w, 'error', w.failure)
put(w, 'again', false)
f.become(w, 'expired')
f.handler(w, match(field(w, 'p0') or '', '^%S+ (%S+)'))
f.shut(w)
f.look(w, now)
return f.finish(w, 'ok')
