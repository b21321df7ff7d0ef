-- Ends of jobs with effects that need nothing but commands and features' verbs, as a part of an exchange. Ends with the
-- same rows are a group: verbs, keys and all that is equal in their jobs are sent once. parts/rows.lua says what rows and
-- verbs are. Here are neither guards nor rows that push the job's own bytes; commit.lua has those.
--
-- ARGV  at this place: stat:failed, the number of the first of the varying keys, how many groups, then for each:
--       '' or 'done' or 'failed', how many rows, then for each row:
--         verb, a letter for each key, its type, a letter for each key and argument: = equal or v varying, then
--         the equal ones: keys as their numbers in KEYS, and arguments
--       then how many jobs, and for each: its group if there are several, ticket, the varying arguments.
--       The varying keys come in the same order from that number on.
-- Hard rows come before soft ones.
--
-- Atomic: as the exchange. A job's types are proven before its first write. The first hard row is its own proof.
do
--@ending
  record = KEYS[1]
  local stat, moving, left, gone, processed, failed = KEYS[number()], number(), {}, {}, 0, 0
  local function heading() -- of a group: its rows
    local rows = {counts = arg()}
    for r = 1, number() do
      local verb, kinds, spec = arg(), arg(), arg()
      local row = {verb = verb, kinds = kinds, keys = {}, args = {}, vkeys = {}, vargs = {}}
      if byte(verb) == 126 then row.soft, row.verb = true, sub(verb, 2) end
      row.command = byte(row.verb) < 91
      row.fills = row.verb == 'RPUSH' or row.verb == 'LPUSH'
      for i = 1, #spec do
        local of, equal = i <= #kinds, byte(spec, i) == 61
        if equal and of then row.keys[i] = KEYS[number()]
        elseif equal then row.args[i - #kinds] = arg()
        elseif of then row.vkeys[#row.vkeys + 1] = i
        else row.vargs[#row.vargs + 1] = i - #kinds end
      end
      rows[r] = row
    end
    return rows
  end
  local function proven(row) -- nil, or why the row is refused, and the key
    for i, key in ipairs(row.keys) do
      local why = typed(key, sub(row.kinds, i, i))
      if why then return why, key end
    end
    if row.command then return end
    if not verbs then join() end
    if proofs[row.verb] then return run(proofs, row.verb, row.keys, row.args) end
  end
  local function prove(rows)
    for r, row in ipairs(rows) do
      if row.soft then return end
      if r > 1 or not row.command then
        local why, key = proven(row)
        if why then return why, key end
      end
    end
  end
  local function write(rows)
    for r = 1, #rows do
      local row, why, key = rows[r]
      if row.command then
        key = row.keys[1]
        local answer = try(row.verb, key, unpack(row.args))
        if type(answer) == 'table' then why = answer.err elseif row.fills then fills(key) end
      else
        if row.soft then why, key = proven(row) end
        if not why then why, key = run(verbs, row.verb, row.keys, row.args) end
      end
      if why and row.soft then refuse('', why, key) elseif why then return why, key end
    end
  end

  local groups = {}
  for g = 1, number() do groups[g] = heading() end
  for _ = 1, number() do
    local rows = groups[#groups > 1 and number() or 1]
    at = at + 1
    ticket = ARGV[at]
    for r = 1, #rows do
      local row = rows[r]
      local into, varies = row.keys, row.vkeys
      for i = 1, #varies do into[varies[i]], moving = KEYS[moving], moving + 1 end
      into, varies = row.args, row.vargs
      for i = 1, #varies do
        at = at + 1
        into[varies[i]] = ARGV[at]
      end
    end
    if reaped and call('HEXISTS', record, ticket) == 0 then reply[2] = reply[2] + 1
    else
      local why, key = prove(rows)
      if not why then why, key = write(rows) end
      if why == '' then left[#left + 1] = ticket
      elseif why then refuse(ticket, why, key)
      else
        gone[#gone + 1] = ticket
        if rows.counts ~= '' then processed = processed + 1 end
        if rows.counts == 'failed' then failed = failed + 1 end
      end
    end
  end
  for i = 1, #gone, 1000 do
    local to = math.min(i + 999, #gone)
    reply[2] = reply[2] + to - i + 1 - call('HDEL', record, unpack(gone, i, to))
  end
  local answer = failed > 0 and try('INCRBY', stat, failed)
  if type(answer) == 'table' then refuse('', answer.err, stat) end
  counted, ended = counted + processed, finish(left)
end
