-- arrive: a step of a workflow has ended. The verb writes what follows from it, in the commit that ends the step's job.
--
-- keys  1 letters   2 hash
-- args  1 step   2 its new letter: d done, f failed, x not run because the workflow is halted
--       3 its place, the payload's field wf   4 the numbers in KEYS of go:workflows, document, go:halted, queues,
--         go:schedule, the queue that the place names, and the job's own queue: nearly all calls leave them unread
--       5 result (d) or failure (f), JSON, or ''   6 the template that sends the step once more (f, x)
--       of an x: 7 how many bytes of the record stand before the payload   8 name of the job's own queue, or ''
--       of a traced workflow: 9 the traceparent of the run; -: none
--
-- The proof reads, decides and builds every command; the verb only sends them. So a call that is refused has written
-- nothing. Refused: WRONGTYPE, and a missing permission. After any other error, which only damaged data brings, the job
-- ends, nothing of the workflow is written, and the sweep looks at the workflow now. A commit that comes late (letter
-- d; letters or workflow gone) changes nothing. A job that was not run because its workflow was halted goes back to the
-- head of its queue if the workflow runs by now.
--@workflow
local made, all, counters, stored, traced -- made: functions(); the others are what the proof leaves to the verb
local last = {} -- the join that the verb wrote last: members of one join often end in one commit

local function rest(keys, numbers) -- keys with those that few calls need
  local list = {keys[1], keys[2]}
  for n in string.gmatch(numbers, '%d+') do list[#list + 1] = KEYS[tonumber(n)] end
  return list
end
local function back(f, w, job, args) -- to the head of its queue: its workflow runs by now
  if not job.bytes then -- the record has lost it
    f.push(w, tonumber(args[1]), 's', args[6])
    return
  end
  w.head, w.names[1], w.read[9] = sub(job.bytes, args[7] + 1), args[8] ~= '' and args[8] or nil, 'LLEN'
end
local function follow(job, keys, args, was, left) -- what few calls do: the functions decide
  made, last.hash = made or functions(), nil
  local s, to, at = tonumber(args[1]), args[2], place(args[3])
  local w = made.open(rest(keys, args[4]), at.queue, job.now)
  if not w then return end
  w.letters[s], w.seen[at.name] = was, left
  w.trace = args[9] and (args[9] == '-' and '' or args[9])
  if to == 'x' and not w.halted then back(made, w, job, args)
  elseif w.state == 'done' then made.mark(w, s, to)
  else made.ended(w, s, was, to, args[3], args[5] or '', args[6] or '') end
  local why, key
  all, why, key = made.build(w)
  return why, key
end
local function decide(job, keys, args)
  local s, to, at, given = args[1], args[2], place(args[3]), args[5] or ''
  local was = try('GETRANGE', keys[1], s, s)
  if type(was) == 'table' then return was.err, keys[1] end
  if at.joins == '-' then -- a handler: nothing waits for it
    all = was == 'r' and {{'SETRANGE', keys[1], s, 'o'}}
    return
  end
  local ends = was == 's' or was == 'y' and to ~= 'd' -- a token ends y
  if not ends and (to ~= 'd' or was ~= 'f' and was ~= 'x') then return end -- late
  local text = last.hash == keys[2] and last.name == at.name and last.text or call('HGET', keys[2], at.name)
  local left, behind = match(text or '', '^(%d+)( %d+ %d+ j .*)$')
  if to == 'd' and ends and at.letter == '-' and left and left ~= '1' and left ~= '0' then
    counters = left - 1 .. behind
    stored = given ~= '' and at.kept ~= '0' and 'r' .. (at.result == '-' and s or at.result)
    traced = args[9] and args[9] ~= '-' and joined(call('HGET', keys[2], 't' .. at.joins) or '', args[9])
    return
  end
  return follow(job, keys, args, was, text)
end
function proofs.arrive(job, keys, args)
  all, counters, stored, traced = nil, nil, nil, nil
  local ok, why, key = pcall(decide, job, keys, args)
  if ok then return why, key end
  why = type(why) == 'table' and why.err or tostring(why)
  for _, text in ipairs({'WRONGTYPE', 'NOPERM', 'user executing the script'}) do
    if string.find(why, text, 1, true) then return why, keys[2] end
  end
  local list, id = rest(keys, args[4]), match(keys[2], '.*go:wf:(.*)$')
  all = type(try('ZCARD', list[3])) == 'number' and {{'ZADD', list[3], string.format('%.0f', job.now), id}}
end
function verbs.arrive(_, keys, args)
  if counters then
    local name = place(args[3]).name
    if stored then call('HSET', keys[2], name, counters, stored, args[5]) else call('HSET', keys[2], name, counters) end
    if traced then call('HSET', keys[2], 't' .. place(args[3]).joins, traced) end
    call('SETRANGE', keys[1], args[1], args[2])
    last.hash, last.name, last.text = keys[2], name, counters
  elseif all then
    for _, command in ipairs(all) do call(unpack(command)) end
    for _, key in ipairs(all.filled or {}) do fills(key) end
  end
end

-- Members of one join that have ended well, in one commit, if none is the last: nothing follows yet.
local MANY = 4096 -- letters that are read and written at once

function many.arrive(all)
  local keys, args, steps, given = all.keys, all.args, all.argsof[1] or {}, all.argsof[5]
  local at = args[3] and place(args[3])
  if not at or args[2] ~= 'd' or at.joins == '-' or at.letter ~= '-' or args[9] or all.argsof[9] or not keys[1] or not keys[2] then return end
  local low, high, numbers = math.huge, 0, {}
  for i = 1, #steps do
    local s = steps[i] + 0
    numbers[i] = s
    if s < low then low = s end
    if s > high then high = s end
  end
  if high - low >= MANY or #steps < all.n then return end
  local letters = try('GETRANGE', keys[1], low, high)
  local text = try('HGET', keys[2], at.name)
  local left, behind = match(type(text) == 'string' and text or '', '^(%d+)( %d+ %d+ j .*)$')
  if type(letters) ~= 'string' or not left or left + 0 <= all.n then return end
  letters = {string.byte(letters, 1, -1)}
  for i = 1, #steps do
    local n = numbers[i] - low + 1
    if letters[n] ~= 115 then return end -- not s: late, or a token has to do with it
    letters[n] = 100
  end
  local put = {at.name, left - all.n .. behind}
  if at.kept ~= '0' and (given or args[5]) then
    if at.result ~= '-' then return end
    for i = 1, #steps do
      local value = given and given[i] or args[5]
      if value ~= '' then put[#put + 1], put[#put + 2] = 'r' .. steps[i], value end
    end
  end
  call('HSET', keys[2], unpack(put))
  call('SETRANGE', keys[1], low, string.char(unpack(letters)))
  last.hash, last.name, last.text = keys[2], at.name, put[2]
  return true
end
