-- Adds a piece of a process's answer to the answers to a command.
--
-- KEYS  1 answers   2 how many bytes they have
-- ARGV  1 how many bytes all answers may have   2 how long they stay in ms   3 process   4 number of the piece   5 '1' if it is the last
--       6 the piece
-- Returns 1, or 0 if there is no room for it: then nothing is written.
--
-- Atomic: the call. Redis allows the PEXPIRE as the first write when out of memory, and then all that follow.
redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)
local bytes = (tonumber(redis.call('GET', KEYS[2]) or 0) or 0) + #ARGV[6] + 128
if bytes > tonumber(ARGV[1]) then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('XADD', KEYS[1], '*', 'p', ARGV[3], 'n', ARGV[4], 'l', ARGV[5], 'b', ARGV[6])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], string.format('%.0f', bytes), 'PX', ARGV[2])
return 1
