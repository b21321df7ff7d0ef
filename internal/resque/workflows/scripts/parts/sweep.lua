-- What each script of the sweep begins with: the workflow as w.
--
-- KEYS  1 letters 2 hash 3 index 4 document 5 halted 6 queues 7 schedule 8 a queue   ARGV  1 name of queue 8
--@workflow
local f = functions()
local now = f.clock()
local w = f.open(KEYS, ARGV[1], now)
if not w then return {'gone'} end
local field, put = f.field, f.put
