-- An adder is a program or a job that adds to an open join. Its field a<adder> of the workflow's hash says how many
-- elements of its sequence are added, their hash, and which numbers are reserved for the next piece.
--
-- ARGV  2 name of the adder   3 the join   4 the step that adds, or -1: a client
-- Statuses of refusal: 'gone' there is no such workflow, or no such join; 'ended' the workflow or the join has ended, or
--       it is closed and a client adds; 'late' the step that adds has ended.
-- The file that has this part also has workflow.lua.
local function refusal(f, w) -- why this adder cannot add, or nil
  if not w then return 'gone' end
  local step, J = tonumber(ARGV[4]), f.join(w, ARGV[3])
  if w.state == 'done' or w.state == 'cancelled' or w.state == 'expired' then return 'ended' end
  if not J then return 'gone' end
  if J.left == 0 or J.kind ~= 'j' or step < 0 and f.field(w, 'open') ~= ARGV[3] then return 'ended' end
  local letter = step >= 0 and f.letter(w, step)
  if letter and letter ~= 's' and letter ~= 'y' then return 'late' end
end
local function adder(f, w)
  local count, hash, letter, letters, join, joins, scope, scopes =
    match(f.field(w, 'a' .. ARGV[2]) or '', '^(%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  return {count = count or '0', hash = hash or '-', letter = letter or '0', letters = tonumber(letters or 0),
    join = join or '0', joins = tonumber(joins or 0), scope = scope or '0', scopes = tonumber(scopes or 0)}
end
local function keep(f, w, a)
  f.put(w, 'a' .. ARGV[2], table.concat({a.count, a.hash, a.letter, a.letters, a.join, a.joins, a.scope, a.scopes}, ' '))
end
