-- Rows are written in one step with a job's end or push. The loader puts this file into the
-- scripts that write rows, which set record, types and, for each job, ticket; at a push bytes too.
--
-- A row is a verb, how many values follow, and the values. A key is its number in KEYS.
--   COMMAND      key, arguments…           a command of Redis
--   head, tail   key, n                    push the job's bytes, without the first n, to an end of a list
--   later        key, ms                   put the job's bytes into a sorted set
--   hold         key, id, text, ms         keep a lock, or take it again unless another job has it
--   other name   n, n keys, arguments…     verbs.NAME(job, keys, arguments), from a feature's own file
--   ?COMMAND     key, answer, arguments…   guard: unless this is the answer (nil is ''), leave the job
--   ~verb        as the verb               soft: if it is refused, report that and go on
--
-- Before a job's first write all its keys are read as their types, each key once a call. The first row
-- may be its own proof. What no read foresees (a field that is no number, a Lua error in a verb)
-- refuses the job as well, but the rows before it are written, and written again next time.
--
-- A file of verbs defines verbs.NAME. If the types of its keys are not proof enough, it defines
-- proofs.NAME, which writes nothing that a job needs. Both return nothing, or why the job is refused and, if it is not
-- the first one, the key. A proof returns '' to leave the job, as a guard does, and may add a text for
-- the caller. At a push it may return '?' to leave the question to the caller: then nothing of the call is
-- written. job has the fields ticket, bytes (the record's value, or what is pushed, or nil) and now (ms of
-- Redis's clock). keys and arguments are lists of strings. A file may use call and try, which are redis.call and redis.pcall; record, the key of the
-- record or nil; and fills(key) for a list that it pushes to, or another key of which Go must know that it is written.
--@ending
local types
local function typedkey(k) return typed(KEYS[k], sub(types, k, k)) end
local row, keys, args
local function read(at) -- the keys and arguments of the verb at a row
  if row == at then return end
  local n = ARGV[at + 2] + 0
  row, keys, args = at, {}, {unpack(ARGV, at + 3 + n, at + 1 + ARGV[at + 1])}
  for i = 1, n do keys[i] = KEYS[ARGV[at + 2 + i] + 0] end
end
local function proven(verb, at) -- all keys of the verb at a row, and what the verb proves itself
  if not verbs then join() end
  for i = at + 3, at + 2 + ARGV[at + 2] do
    local why, key = typedkey(ARGV[i] + 0)
    if why then return why, key end
  end
  if proofs[verb] then
    read(at)
    return run(proofs, verb, keys, args)
  end
end

-- prove and write go through a job's rows. They return nil, or why the job is refused, and the key.
local function prove(at, last, first) -- '', the answer and the key where a guard does not hold; first: the first row needs no proof
  while at < last do
    local verb, to, why, key, of = ARGV[at], at + 1 + ARGV[at + 1]
    local c = byte(verb) -- 63 is ?, 126 is ~, below 91 a capital
    if c == 63 then
      key = KEYS[ARGV[at + 2] + 0]
      local answer = try(sub(verb, 2), key, unpack(ARGV, at + 4, to))
      if type(answer) == 'table' then why = answer.err
      elseif tostring(answer or '') ~= ARGV[at + 3] then return '', tostring(answer or ''), key end
    elseif c < 91 or owns[verb] then
      if not first then why, key = typedkey(ARGV[at + 2] + 0) end
    elseif c < 126 then
      why, key, of = proven(verb, at)
    end
    if why then return why, key, of end
    first, at = first and c == 63, to + 1
  end
end
local function write(at, last)
  while at < last do
    local verb, to, why, key = ARGV[at], at + 1 + ARGV[at + 1]
    local c = byte(verb)
    local soft = c == 126
    if soft then
      verb = sub(verb, 2)
      c = byte(verb)
    end
    key = KEYS[ARGV[at + 2] + 0]
    if c == 63 then -- prove has asked it
    elseif c < 91 then
      local answer = try(verb, key, unpack(ARGV, at + 3, to))
      if type(answer) == 'table' then why = answer.err
      elseif verb == 'RPUSH' or verb == 'LPUSH' then fills(key) end
    elseif owns[verb] then
      why = own(verb, key, ARGV[at + 3], ARGV[at + 4], ARGV[at + 5])
    else
      if soft then why, key = proven(verb, at) end
      if not why then
        read(at)
        why, key = run(verbs, verb, keys, args)
      end
    end
    if why and soft then refuse('', why, key) elseif why then return why, key end
    at = to + 1
  end
end
