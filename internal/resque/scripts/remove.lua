-- Removes failure records, each told by its bytes: where it was read something else
-- may stand by now. They are blanked first, as Ruby does, so that of equal records
-- the right one goes; blanks that a Ruby process left behind go with them.
--
-- KEYS  1 failure list
-- ARGV  for each record: index where it was read, the record
-- Returns how many were removed.
--
-- The LTRIM trims nothing: a first write that Redis allows when out of memory, and
-- with it the LSETs, so that a full Redis can be emptied.
if redis.call('LLEN', KEYS[1]) == 0 then return 0 end
redis.call('LTRIM', KEYS[1], 0, -1)
local removed = 0
for at = 1, #ARGV, 2 do
  local index, record = ARGV[at], ARGV[at + 1]
  if redis.call('LINDEX', KEYS[1], index) ~= record then
    index = redis.call('LPOS', KEYS[1], record)
  end
  if index then
    redis.call('LSET', KEYS[1], index, '')
    removed = removed + 1
  end
end
redis.call('LREM', KEYS[1], 0, '')
return removed
