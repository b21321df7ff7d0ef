-- resend: lost steps are sent again from their templates. Atomic: all of it, so two callers send each step once.
--@sweep
-- KEYS  1 to 8 as above   9 stalled
-- ARGV  1 name of queue 8   2 the field stalled as it was read   3 the field without these steps   then the steps
-- Returns {'ok', the steps that cannot be sent again: nothing is kept of their jobs, or of what they were given…};
--       {'gone'}; {'changed'} if another caller was faster; {state} if the workflow is halted; {'refused', why, key}.
if w.halted then return {w.state} end
if (field(w, 'stalled') or '') ~= ARGV[2] then return {'changed'} end
call('ZSCORE', KEYS[9], w.id) -- a key of the wrong type is refused before the first write
local function whole(of) -- whether the results that it names are kept
  for n, many in string.gmatch(of, '(%d+)%+?(%d*)') do
    if many == '' and field(w, 'r' .. n) == '?' then return false end
  end
  return true
end
local lost = {}
for i = 4, #ARGV do
  local n = tonumber(ARGV[i])
  local to, of, rest = match(field(w, 's' .. n) or '', '^(%l %l) (%S+) %S+ (.*)$')
  if f.letter(w, n) ~= 's' then -- it has ended
  elseif to and (sub(to, 3) == 'n' or whole(of)) then f.push(w, n, 's', to .. ' ' .. of .. ' 0 ' .. rest)
  else lost[#lost + 1] = ARGV[i] end
end
put(w, 'stalled', ARGV[3] ~= '' and ARGV[3])
put(w, 'looked', false)
f.look(w, now)
local answer = f.finish(w, 'ok', unpack(lost))
if answer[1] ~= 'ok' then return answer end
if ARGV[3] == '' then call('ZREM', KEYS[9], w.id) end
return answer
