-- Starts a workflow: its state, the documents of its steps, and the jobs that are sent first, in one step.
--
-- KEYS  1 to 8 as in parts/workflow.lua   9 lock   10 hash of the workflow that holds it   then as in parts/piece.lua
-- ARGV  1 name of queue 8   2 id   3 name, or '-'   4 deadline in ms, or 0   5 name of the lock, or ''   6 who holds
--       it, or ''   then the piece
-- Returns 'new'; 'existed': a workflow with this id is there; 'held' and the id of the workflow that holds the lock and
--       goes on; 'other' and an id: another one than ARGV[6] holds it, call again with its hash; 'refused', why, key.
--
-- Atomic: unless it is 'new', nothing is written. The same call may be made again.
--@workflow
--@piece
local f = functions()
for key, read in pairs({[2] = 'HLEN', [9] = 'GET', [10] = 'HLEN'}) do
  local answer = try(read, KEYS[key])
  if type(answer) == 'table' then return {'refused', answer.err, KEYS[key]} end
end
if call('EXISTS', KEYS[2]) == 1 then return {'existed'} end
local holder = ARGV[5] ~= '' and call('GET', KEYS[9]) or ''
if holder ~= ARGV[6] and holder ~= '' then return {'other', holder} end
local state = holder ~= '' and call('HGET', KEYS[10], 'state')
if state == 'running' or state == 'retrying' then return {'held', holder} end

local w = f.begin(KEYS, ARGV[1], f.clock(), ARGV[2])
w.begins = ARGV[3]
f.put(w, 'id', ARGV[2])
f.put(w, 'began', string.format('%.0f', w.now))
f.look(w, w.now + 60000)
if ARGV[4] ~= '0' then
  f.put(w, 'until', string.format('%.0f', w.now + ARGV[4]))
  f.look(w, w.now + ARGV[4])
end
piece(f, w, 7, 11)
f.become(w, 'running')
f.settle(w, '0') -- without any step it is done
if ARGV[5] ~= '' then w.lock, w.read[9] = ARGV[2], 'GET' end
return f.finish(w, 'new')
