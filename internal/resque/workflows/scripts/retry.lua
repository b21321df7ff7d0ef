-- Sends again, in pieces, the steps that failed with nothing to bear it and those that were not run.
--
-- KEYS  1 letters   2 hash   3 index   4 document   5 halted   6 queues   7 schedule   8 a queue
--       of a workflow that is unique also: 9 its lock   10 hash of the workflow that holds the lock
-- ARGV  1 name of queue 8   2 'begin', or 'go on' of what was begun   3 how many steps in this piece
--       4 name of lock 9 or ''   5 id of the workflow of hash 10
-- Returns {'more', sent, state} or {'over', sent, state}; else nothing was written: {'gone'}, {'idle', state}: there is nothing to
--       retry, {'held', id}: a workflow that runs holds the lock, {'holder', name, id}: the lock of that name has another
--       holder than ARGV[5] says.
--
-- Atomic: a piece. The first one makes the workflow retrying and takes it out of halted. It puts the deadline off by its
-- length, and counts a round: in each round a handler is called once. While it is retrying, members run and are counted, and
-- joins wait. The last piece ends that, and has the sweep look at the joins. A caller that dies leaves the rest to the sweep.
--@workflow
local f = functions()
local w = f.open(KEYS, ARGV[1], f.clock())
if not w then return {'gone'} end
local sent = 0
local function failed(n) -- the place, the template and the letter of a step that is to be sent again
  local fatal, text, _, again = match(f.field(w, 'f' .. n) or '', '^(%d) ([^\n]*)\n([^\n]*)\n(.*)$')
  local was = f.letter(w, n)
  if fatal and (was == 'x' or was == 'f' and fatal == '1') then return place(text), again, was end
end
local function arm(n) -- a handler, once in each round
  n = tonumber(n)
  if n and f.letter(w, n) == 'o' and f.field(w, 'e' .. n) ~= f.field(w, 'round') then
    f.mark(w, n, 'h')
    f.put(w, 'e' .. n, f.field(w, 'round'))
  end
end
if w.state ~= 'retrying' then
  if ARGV[2] ~= 'begin' or w.state == 'running' or w.state == 'done' then return {'idle', w.state} end
  local lock = f.field(w, 'lock') or ''
  if lock ~= ARGV[4] then return {'holder', lock, ''} end
  if lock ~= '' then
    local holder = call('GET', KEYS[9]) or ''
    if holder ~= ARGV[5] then return {'holder', lock, holder} end
    local state = holder ~= w.id and holder ~= '' and call('HGET', KEYS[10], 'state')
    if state == 'running' or state == 'retrying' then return {'held', holder} end
    w.lock, w.read[9] = w.id, 'GET'
  end
  f.become(w, 'retrying')
  f.put(w, 'again', '0 fx')
  f.put(w, 'round', tostring(f.number(w, 'round') + 1))
  if f.number(w, 'deadline') > 0 then f.put(w, 'until', string.format('%.0f', w.now + f.number(w, 'deadline'))) end
end
local from, which = match(f.field(w, 'again') or '0 x', '^(%d+) (%l+)$')
local page, at = call('GETRANGE', KEYS[1], from, from + 65535), 1
while sent < tonumber(ARGV[3]) and w.bytes < 1048576 do
  local n = string.find(page, '[' .. which .. ']', at)
  if not n then at = #page + 1 break end
  at, n = n + 1, n - 1 + from
  local p, again, was = failed(n)
  if p then
    sent = sent + 1
    f.add(w, was == 'x' and 'off' or 'bad', -1)
    f.put(w, 'f' .. n, false)
    if which == 'fx' then
      for _, h in ipairs((f.walk(w, p.scope))) do arm(h) end
    end
    local to = match(again, '^%l') or 's'
    if to == 'y' then f.put(w, 'c' .. n, false) end -- its token ends it once more
    if p.letter == '-' then f.member(w, p.joins, n, p.borne, to)
    else f.member(w, p.joins, tonumber(p.letter), p.borne, 'b') end
    f.push(w, n, 's', again)
  end
end
for _, J in pairs(w.joins) do
  if which == 'fx' and J and J.changed and J.left > 0 then arm(J.over) end
end
f.put(w, 'again', from + at - 1 .. ' ' .. which)
f.look(w, w.now)
local over = at > #page and #page < 65536
if over then
  f.put(w, 'again', false)
  f.put(w, 'held', string.format('%.0f', f.number(w, 'held') + 1)) -- also joins of which nothing was sent again
  f.become(w, f.number(w, 'bad') == 0 and 'running' or 'failed')
end
return f.finish(w, over and 'over' or 'more', tostring(sent), w.state)
