-- remove: takes away what is left of a workflow that has ended. Atomic: all of it. UNLINK frees the memory of a large one
-- beside the commands that follow.
--
-- KEYS  1 letters 2 hash 3 index 4 document 5 halted 6 stalled 7 lock
-- ARGV  1 id   2 'over': its time is over; 'forget': a program or an operator wants it gone; 'lost': its hash is gone
--       3 of 'over' the field over as it was read; of 'lost' the error of the document   4 TTL of a document without one, in ms
-- Returns 'ok'; 'gone' if there is no hash; 'moved' if it has moved since; its state if it goes on.
local call, id, mode = redis.call, ARGV[1], ARGV[2]
local got = call('HMGET', KEYS[2], 'state', 'over')
local state = got[1]
if mode == 'lost' and call('EXISTS', KEYS[2]) == 1 then return 'moved' end
if state == 'running' or state == 'retrying' then return state end
if mode == 'over' and got[2] ~= ARGV[3] then return state and 'moved' or 'gone' end
local doc = call('HMGET', KEYS[4], 'state', 'ttl')
for _, i in ipairs({3, 5, 6}) do call('ZCARD', KEYS[i]) end -- refused before the first write
local ttl = math.max(1000, math.min(tonumber(doc[2] or '') or tonumber(ARGV[4]), 1e11))
if mode == 'forget' then call('UNLINK', KEYS[4])
elseif doc[1] == 'running' or doc[1] == 'retrying' then
  local time = call('TIME')
  call('HSET', KEYS[4], 'state', 'failed', 'error', ARGV[3], 'ended', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
end
if doc[1] and doc[1] ~= 'done' then call('PEXPIRE', KEYS[4], string.format('%.0f', ttl)) end
call('UNLINK', KEYS[1], KEYS[2])
for i = 3, 6 do if i ~= 4 then call('ZREM', KEYS[i], id) end end
if redis.pcall('GET', KEYS[7]) == id then call('UNLINK', KEYS[7]) end
return (state or mode ~= 'forget') and 'ok' or 'gone'
