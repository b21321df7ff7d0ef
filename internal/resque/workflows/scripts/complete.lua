-- Ends a step from outside, by its token.
--
-- KEYS  1 letters   2 hash   3 index   4 document   5 halted   6 queues   7 schedule   8 queue of what follows
-- ARGV  1 name of queue 8   2 step   3 secret of the token   4 'd' or 'f'   5 result of d or failure of f, or ''
-- Returns {'ok', letter before}; else nothing was written: {'gone'}, {'wrong'}: the step has no such token, {'late', letter}: it
--       was completed before, is done, or has failed before it failed from outside.
--
-- Atomic: all of it. A step that has failed because its time was over, or was not run, is done when its result comes after all,
-- as one whose job succeeds late. Of two calls the first one counts.
--@workflow
local f = functions()
local w = f.open(KEYS, ARGV[1], f.clock())
if not w then return {'gone'} end
local n, to = tonumber(ARGV[2]), ARGV[4]
local secret, text = match(f.field(w, 'k' .. n) or '', '^(%S+) %S+ (.*)$')
local was = f.letter(w, n)
if secret ~= ARGV[3] or was == 'w' or was == '' then return {'wrong'} end
if was == 'd' or f.field(w, 'c' .. n) or w.state == 'done' or to == 'f' and was ~= 'y' then return {'late', was} end
f.put(w, 'c' .. n, '1')
f.ended(w, n, was, to, text, ARGV[5], to == 'f' and f.field(w, 's' .. n) or '')
return f.finish(w, 'ok', was)
