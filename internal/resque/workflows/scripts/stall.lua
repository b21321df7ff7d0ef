-- stall: says of a workflow which of its sent steps are nowhere, or that none is. Atomic: all of it.
--@sweep
-- KEYS  1 to 8 as above   9 stalled
-- ARGV  1 name of queue 8   2 the field stalled, '' if the workflow stands still no longer   3 bits that are set in its letters
-- Returns {'ok'}; {'same'}; {'gone'}; {'moved'} if its letters have moved meanwhile; {'refused', why, key}.
if tostring(call('BITCOUNT', KEYS[1])) ~= ARGV[3] then return {'moved'} end
if (field(w, 'stalled') or '') == ARGV[2] then return {'same'} end
call('ZSCORE', KEYS[9], w.id) -- a key of the wrong type is refused before the first write
put(w, 'stalled', ARGV[2] ~= '' and ARGV[2])
local answer = f.finish(w, 'ok')
if answer[1] ~= 'ok' then return answer end
if ARGV[2] ~= '' then call('ZADD', KEYS[9], string.format('%.0f', now), w.id) else call('ZREM', KEYS[9], w.id) end
return answer
