-- Ends a step for an operator: it counts as done, or as failed because its job was removed. Its job does not matter then.
--
-- KEYS  1 letters   2 hash   3 index   4 document   5 halted   6 queues   7 schedule   8 queue of what follows
-- ARGV  1 name of queue 8   2 step   3 'd' or 'f'   4 result of d, failure of f, or ''   5 place of a sent step, or ''
--       6 template that sends an f again
-- Returns {'ok', letter before}; else nothing was written: {'gone'}, {'ended', state}: the workflow is done, {'late', letter}: the step
--       is not in a state that this ends, {'waits'}: it was not sent yet, {'none'}: there is no such step, {'unplaced'}: it is
--       sent, and its place is not known.
--
-- Atomic: all of it. d ends a step that was sent, failed or was not run; f only one that was sent. A step that waits is not
-- ended: what follows it would be sent before what comes before it has ended.
--@workflow
local f = functions()
local w = f.open(KEYS, ARGV[1], f.clock())
if not w then return {'gone'} end
local n, to = tonumber(ARGV[2]), ARGV[3]
local was, text = f.letter(w, n), nil
if was == 'w' then return {'waits'} end
if not string.find('sydfx', was, 1, true) or was == '' then return {'none'} end
if was == 'd' or to == 'f' and was ~= 's' and was ~= 'y' then return {'late', was} end
if w.state == 'done' then return {'ended', w.state} end
if was == 's' then text = ARGV[5]
elseif was == 'y' then text = match(f.field(w, 'k' .. n) or '', '^%S+ %S+ (.*)$')
else text = match(f.field(w, 'f' .. n) or '', '^%d ([^\n]*)') end
if not text or not match(text, '^%S+ %S+ %S+ %S+ %S+ %S+ .') then return {'unplaced'} end
f.ended(w, n, was, to, text, ARGV[4], ARGV[6])
return f.finish(w, 'ok', was)
