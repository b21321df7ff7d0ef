-- Ends of jobs with effects, as a part of an exchange. Ends with the same rows are a group: verbs, keys and all that is
-- equal in their jobs are sent once. parts/rows.lua says what rows and verbs are. Here are no guards; commit.lua has those.
--
-- Where all jobs are one group of one row, they may be a run. Then a command that takes any number of members writes those
-- of all jobs at once, without a look at each; if Redis refuses it, nothing was written, and each job's own is tried. SREM and
-- HDEL may have a key for each job, since they do no harm where they are tried again: SREM is sent once for each key, HDEL
-- once for each job. A file of verbs may define many.NAME(all) for runs. all has n, how many jobs; keys and args, those that are equal in all; and
-- keysof and argsof, which have for each other place a list of what the jobs have there. It writes what the verb would for
-- one job after the other and returns true, or writes nothing and returns nothing: then each has the verb. What else it
-- returns, or an error of Lua, refuses all jobs.
--
-- ARGV  at this place: stat:failed, the number of the first of the varying keys, how many groups, then for each:
--       '' or 'done' or 'failed', how many rows, then for each row:
--         verb, a letter for each key, its type, a letter for each key and argument: = equal, v varying or / an argument that is
--         equal but for the ticket at its end, then the equal ones: keys as their numbers in KEYS, and arguments
--       then how many jobs, and for each: its group if there are several, ticket, the varying arguments.
--       The varying keys come in the same order from that number on.
--       Of a run it is how many jobs below zero, then all tickets, then of a command the arguments of each job; of a verb for
--       each place that varies what the jobs have there. The varying keys come place by place, too.
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
      row.command, row.own = byte(row.verb) < 91, owns[row.verb]
      row.fills = row.verb == 'RPUSH' or row.verb == 'LPUSH'
      for i = 1, #spec do
        local of, letter = i <= #kinds, byte(spec, i)
        local equal = letter == 61
        if equal and of then row.keys[i] = KEYS[number()]
        elseif equal then row.args[i - #kinds] = arg()
        elseif letter == 47 then
          row.before = row.before or {}
          row.before[i - #kinds] = arg()
        elseif of then row.vkeys[#row.vkeys + 1] = i
        else row.vargs[#row.vargs + 1] = i - #kinds end
      end
      rows[r] = row
    end
    return rows
  end
  local function typedkeys(row)
    for i, key in ipairs(row.keys) do
      local why = typed(key, sub(row.kinds, i, i))
      if why then return why, key end
    end
  end
  local function proven(row) -- nil, or why the row is refused, and the key
    local why, key = typedkeys(row)
    if why then return why, key end
    if row.command or row.own then return end
    if not verbs then join() end
    if proofs[row.verb] then return run(proofs, row.verb, row.keys, row.args) end
  end
  local function prove(rows)
    for r, row in ipairs(rows) do
      if row.soft then return end
      if r > 1 or not row.command and not row.own then
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
      elseif row.own then
        key = row.keys[1]
        why = own(row.verb, key, unpack(row.args))
      else
        if row.soft then why, key = proven(row) end
        if not why then why, key = run(verbs, row.verb, row.keys, row.args) end
      end
      if why and row.soft then refuse('', why, key) elseif why then return why, key end
    end
  end
  local function over(rows, why, key) -- the job of the ticket has ended, or is left ('') or refused
    if why == '' then left[#left + 1] = ticket
    elseif why then refuse(ticket, why, key)
    else
      gone[#gone + 1] = ticket
      if rows.counts ~= '' then processed = processed + 1 end
      if rows.counts == 'failed' then failed = failed + 1 end
    end
  end
  local function alone(rows)
    local why, key = prove(rows)
    if not why then why, key = write(rows) end
    over(rows, why, key)
  end

  local function fill(row, i) -- with what varies: of the next job, or of the i-th of a run of verbs
    local into, varies = row.keys, row.vkeys
    for v = 1, #varies do
      if i then into[varies[v]] = row.keysof[varies[v]][i] else into[varies[v]], moving = KEYS[moving], moving + 1 end
    end
    into, varies = row.args, row.vargs
    for v = 1, #varies do
      if i then into[varies[v]] = row.argsof[varies[v]][i]
      else
        at = at + 1
        into[varies[v]] = ARGV[at]
      end
    end
    if row.before then
      for place, before in pairs(row.before) do into[place] = before .. ticket end
    end
  end
  local function together(rows, n) -- a run: true, nil or why, as many.NAME; at is behind the tickets
    local row = rows[1]
    local before = row.before and row.before[1]
    if row.command and row.vkeys[1] and row.verb == 'HDEL' then -- locks: hardly any two jobs have one key
      local first = moving - 1
      for i = 1, n do
        if type(try('HDEL', KEYS[first + i], ARGV[at + i])) == 'table' then return end
      end
      return true
    elseif row.command and row.vkeys[1] then
      local names, of = {}, {} -- what each key has: one member, or a list
      for i = 1, n do
        local key = KEYS[moving + i - 1]
        local member = before and before .. ARGV[at - n + i] or ARGV[at + i]
        local has = of[key]
        if not has then names[#names + 1], of[key] = key, member
        elseif type(has) == 'table' then has[#has + 1] = member
        else of[key] = {has, member} end
      end
      for i = 1, #names do
        local key = names[i]
        local has, answer = of[key]
        if type(has) == 'table' then answer = try(row.verb, key, unpack(has)) else answer = try(row.verb, key, has) end
        if type(answer) == 'table' then return end
      end
      return true
    elseif row.command then
      local answer
      if before then
        local members = {}
        for i = 1, n do members[i] = before .. ARGV[at - n + i] end
        answer = try(row.verb, row.keys[1], unpack(members))
      else answer = try(row.verb, row.keys[1], unpack(ARGV, at + 1, at + n * #row.vargs)) end
      if type(answer) == 'table' then return end
      if row.fills then fills(row.keys[1]) end
      return true
    end
    if not verbs then join() end
    local all = {n = n, keys = row.keys, args = row.args, keysof = {}, argsof = {}}
    row.keysof, row.argsof = all.keysof, all.argsof
    for _, v in ipairs(row.vkeys) do all.keysof[v], moving = {unpack(KEYS, moving, moving + n - 1)}, moving + n end
    for _, v in ipairs(row.vargs) do all.argsof[v], at = {unpack(ARGV, at + 1, at + n)}, at + n end
    if reaped or not many[row.verb] or typedkeys(row) then return end
    local ok, done = pcall(many[row.verb], all)
    return not ok and (type(done) == 'table' and done.err or tostring(done)) or done
  end

  local groups = {}
  for g = 1, number() do groups[g] = heading() end
  local jobs = number()
  local runs, first, n = jobs < 0, at, math.abs(jobs)
  if runs then at = at + n end
  local row, done = groups[1][1], nil
  local columns = runs and not row.command
  if runs and (columns or not reaped) then done = together(groups[1], n) end
  if done == true then
    gone = {unpack(ARGV, first + 1, first + n)}
    if groups[1].counts ~= '' then processed = n end
    if groups[1].counts == 'failed' then failed = n end
    if not columns then at = at + n * #row.vargs end
    n = 0
  end
  for i = 1, n do
    local rows = groups[#groups > 1 and number() or 1]
    if runs then ticket = ARGV[first + i] else ticket = arg() end
    for r = 1, #rows do fill(rows[r], columns and i) end
    if reaped and call('HEXISTS', record, ticket) == 0 then reply[2] = reply[2] + 1
    elseif not done then alone(rows)
    elseif not row.soft then over(rows, done, row.keys[1])
    else
      refuse('', done, row.keys[1])
      over(rows)
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
