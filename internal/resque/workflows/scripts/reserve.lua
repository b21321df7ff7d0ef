-- Says how far an adder is, and reserves numbers for the next piece that it adds.
--
-- KEYS  1 to 8 as in parts/workflow.lua
-- ARGV  1 name of queue 8   2 to 4 as in parts/adder.lua   then how many letters, joins and scopes it needs; 0 letters:
--       it reserves nothing
-- Returns 'ok', state, how many elements it has added, their hash, and the first letter, join and scope that are
--       reserved; or what parts/adder.lua returns; or 'refused', why, key.
--
-- Atomic: all. Numbers are reserved once: a call that is made again before the piece is added gets the same, unless it
-- needs more of them than it did. Numbers that were reserved and not used stay zero bytes.
--@workflow
--@adder
local f = functions()
local w = f.open(KEYS, ARGV[1], f.clock())
local why = refusal(f, w)
if why then return {why} end
local a = adder(f, w)
local letters, joins, scopes = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
if letters > a.letters or letters > 0 and (joins > a.joins or scopes > a.scopes) then
  local function take(name, n)
    local first = f.number(w, name)
    f.put(w, name, string.format('%.0f', first + n))
    return string.format('%.0f', first)
  end
  a.letters, a.joins, a.scopes = letters, joins, scopes
  a.letter, a.join, a.scope = take('next', letters), take('nextjoin', joins), take('nextscope', scopes)
  keep(f, w, a)
end
return f.finish(w, 'ok', w.state, a.count, a.hash, a.letter, a.join, a.scope)
