-- lose: sent steps that will not end by themselves end now: no reply came in time, or their jobs are nowhere. Atomic: all.
--@sweep
-- KEYS  1 to 8 as above
-- ARGV  1 name of queue 8   then for each step: its number, its letter, until when its reply may come or '', its new letter,
--       place, failure (JSON) or '', template that sends it again or ''
-- Returns {'ok', the steps that ended…}, {'gone'}, or {'refused', why, key}. A step whose letter is another one, or
-- whose time is, stays as it is; so does a lost one that would become x while its workflow runs.
local ended = {'ok'}
for i = 2, #ARGV, 7 do
  local n, was, to = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 3]
  local time = field(w, 'y' .. n) or ''
  if f.letter(w, n) == was and (was ~= 'y' or time == ARGV[i + 2]) and (to == 'f' or w.halted) then
    ended[#ended + 1] = ARGV[i]
    if w.state == 'done' then f.mark(w, n, to)
    else f.ended(w, n, was, to, ARGV[i + 4], ARGV[i + 5], ARGV[i + 6]) end
  end
end
return f.finish(w, unpack(ended))
