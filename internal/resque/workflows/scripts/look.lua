-- look: the sweep looks at a workflow. Atomic: all of it.
--@sweep
-- KEYS  1 to 8 as above
-- ARGV  1 name of queue 8   2 the score of the index at which the sweep looks   3 the next score, '' to leave it   4 since
--       when its letters have not moved and how many bits of them are set, '' if that is written   5 '1': send the rest of
--       large groups   6 the counter held at which the sweep began to look for joins, if it has seen them all, else ''
--       7 the counter round at which no letter was s or y, else ''   then joins
-- Returns {'ok', state, queue of the first step that is still to be sent or ''} or {'gone'}; or {'refused', why, key}.
--
-- Joins that need nothing are passed over. If there is more to do, the workflow is due again at once.
local function head()
  local n = field(w, 'more')
  local length, rest = match(n and field(w, 's' .. n) or '', '^%l %l %S+ %S+ %d+ %d+ %d+ (%d+):(.*)$')
  return length and sub(rest, 1, tonumber(length)) or ''
end
while ARGV[5] == '1' and field(w, 'more') and w.sent < 128 do
  local n = field(w, 'more')
  local count, after = match(field(w, 'm' .. n) or '', '^(%d+) (%S+)$')
  put(w, 'm' .. n, false)
  put(w, 'more', after ~= '-' and after)
  if count then f.send(w, tonumber(n), tonumber(count)) end
end
if ARGV[6] ~= '' and field(w, 'held') == ARGV[6] then put(w, 'held', false) end
for i = 8, #ARGV do f.settle(w, ARGV[i]) end
if match(field(w, 'over') or '', '^%l+') ~= w.state then put(w, 'over', string.format('%s %.0f', w.state, now)) end
if ARGV[4] ~= '' then put(w, 'looked', ARGV[4]) end
local quiet = w.halted and not w.became and ARGV[7] ~= '' and (field(w, 'round') or '0') == ARGV[7]
local score = call('ZSCORE', KEYS[3], w.id)
if quiet then call('ZSCORE', KEYS[5], w.id) end -- a key of the wrong type is refused before the first write
local answer = f.finish(w, 'ok', w.state, head())
if answer[1] ~= 'ok' then return answer end
if quiet then call('ZREM', KEYS[5], w.id) end
if ARGV[3] ~= '' and not w.look and not field(w, 'more') and score == ARGV[2] then call('ZADD', KEYS[3], ARGV[3], w.id) end
return answer
