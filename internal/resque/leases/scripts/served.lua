-- Opens the record of a server, or has it refuse what the server sent before: no turn up to a number is done from now on.
--
-- KEYS  1 served, as turn.lua has it
-- ARGV  number   how long the record stays, in ms
-- Returns {number of the last turn that was done or '', its jobs or ''}: '<lease> <place>' of each, one a line.
--
-- Atomic: the call. Redis does it when out of memory, too.
local was = redis.call('HMGET', KEYS[1], 'open', 'turn', 'places')
redis.call('HDEL', KEYS[1], '')
if tonumber(ARGV[1]) > tonumber(was[1] or -1) then redis.call('HSET', KEYS[1], 'open', ARGV[1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local turn, places = string.match(was[3] or '', '^(%d+)\n(.*)$')
return {was[2] or '', turn and turn == was[2] and places or ''}
