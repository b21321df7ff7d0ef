-- piece reads what start.lua and add.lua bring, from ARGV[at] on, and puts it into w. Its queues begin at KEYS[key], and
-- the hashes behind them.
--
-- ARGV  number of its first letter, letters
--       how many values follow, and these: fields of the workflow's hash and their texts. The field list is added to
--       how many queues, and their names
--       how many jobs, and for each: step, delay as in a template, '<length>:<queue><payload>'
--       for each hash: how many keys it has (of several all are removed first), its TTL in ms, how many values
--       follow, and these
-- The file that has this part also has workflow.lua. So that a lost job can be sent again or counted, it keeps the job as a
-- template if the workflow is small, and else where the job stands.
local SMALL = 1000 -- letters
local function keeper(f, w, small) -- keeps the jobs that are sent first
  local first, count, field = 0, 0, nil
  return function(n, record)
    if record and small then
      f.put(w, 's' .. n, f.letter(w, n) .. ' n - 0 0 0 0 ' .. record)
    elseif record and field and n == first + count and string.find(record, field, 1, true) then
      count = count + 1
    else
      if field then f.put(w, 'i' .. first, count .. ' ' .. sub(field, 7, -2)) end
      first, count, field = n, 1, record and match(record, '^.*("wf":"[^"]*")')
    end
  end
end
local function behind(list, more) -- the items of a list and more of them; numbers in a row are one item
  local before, first, count = match(list, '^(.-)(%d+)%+?(%d*)$')
  local from, many, rest = match(more, '^(%d+)%+?(%d*)(.*)$')
  count, many = tonumber(count) or 1, tonumber(many) or 1
  if first and from and first + count == tonumber(from) and not match(rest, '^c?%[') then
    return before .. first .. '+' .. string.format('%.0f', count + many) .. rest
  end
  return (list ~= '' and list .. ',' or '') .. more
end
local function piece(f, w, at, key)
  local first = tonumber(ARGV[at])
  w.piece = {first = first, letters = ARGV[at + 1]}
  local last = at + 2 + ARGV[at + 2]
  for i = at + 3, last, 2 do
    local name, text = ARGV[i], ARGV[i + 1]
    f.put(w, name, name == 'list' and behind(f.field(w, name) or '', text) or text)
  end
  at = last + 1
  for i = 1, tonumber(ARGV[at]) do
    w.queues[ARGV[at + i]], w.read[key] = key, 'LLEN'
    key = key + 1
  end
  at = at + ARGV[at] + 1
  local letters = first + #w.piece.letters
  if w.piece.letters == '' then letters = tonumber(f.field(w, 'next') or '') or 0 end -- an earlier piece brought them
  local keep = keeper(f, w, letters <= SMALL)
  for i = 1, tonumber(ARGV[at]) do
    local n, due = tonumber(ARGV[at + 3 * i - 2]), f.due(w, ARGV[at + 3 * i - 1])
    if f.letter(w, n) == 'y' then f.outside(w, n, due) end
    f.enqueue(w, ARGV[at + 3 * i], due)
    keep(n, ARGV[at + 3 * i])
  end
  keep()
  at = at + 3 * ARGV[at] + 1
  while at <= #ARGV do
    local h = {key = key, keys = tonumber(ARGV[at]), ttl = ARGV[at + 1], values = {}}
    for i = at + 3, at + 2 + ARGV[at + 2] do h.values[#h.values + 1] = ARGV[i] end
    w.hashes[#w.hashes + 1], w.read[key] = h, 'HLEN'
    key, at = key + h.keys, at + 3 + ARGV[at + 2]
  end
end
