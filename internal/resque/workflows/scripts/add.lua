-- Adds a piece to an open join: its members' letters, joins, fields, documents and jobs, with how far the adder is.
--
-- KEYS  1 to 8 as in parts/workflow.lua   then as in parts/piece.lua
-- ARGV  1 name of queue 8   2 to 4 as in parts/adder.lua   5, 6 how many elements the adder has added before, their
--       hash   7, 8 the same with this piece   9 how many members it has   then the piece
-- Returns 'ok', state, how many elements are added, their hash: also if the piece was there; 'changed': another sequence
--       was added, or the piece's numbers are not those that are reserved; 'behind', state, how many, hash: fewer
--       elements are there than before; or what parts/adder.lua returns; or 'refused', why, key.
--
-- Atomic: all. The same call may be made again.
--@workflow
--@piece
--@adder
local f = functions()
local w = f.open(KEYS, ARGV[1], f.clock())
local why = refusal(f, w)
if why then return {why} end
local a, before, behind = adder(f, w), tonumber(ARGV[5]), tonumber(ARGV[7])
local have = tonumber(a.count)
if have < before then return {'behind', w.state, a.count, a.hash} end
local known = have == before and ARGV[6] or have == behind and ARGV[8] -- the hash, where this call knows it
if known and known ~= a.hash then return {'changed'} end
if have > before then return {'ok', w.state, a.count, a.hash} end
if ARGV[10] ~= a.letter or #ARGV[11] > a.letters then return {'changed'} end

piece(f, w, 10, 9)
local J = f.join(w, ARGV[3])
J.left, J.changed = J.left + ARGV[9], true
a.count, a.hash, a.letters = ARGV[7], ARGV[8], 0
keep(f, w, a)
return f.finish(w, 'ok', w.state, a.count, a.hash)
