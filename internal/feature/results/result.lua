-- Writes how a run of a job ended into the job's document, if the document is there. The end of a job that goes
-- on leaves a document that says cancelled as it is, and notes the state beside it.
--
-- keys  document, progress, and the list of log lines if they are captured
-- args  state, '1' if the job is over, TTL in ms, the try or '', progress or '', how many values follow about log
--       lines: none, or the run's name, how many of its lines came earlier and the lines. Then the fields and
--       values to write
--
-- What earlier runs said is removed first. Before the first run there is nothing but the time it was due.
--@lines
function verbs.result(job, keys, args)
  local doc, state, over, ttl, log = keys[1], args[1], args[2] ~= '', args[3], args[6] + 0
  local fields, first, was, due = try('HLEN', doc), true, nil, nil
  if type(fields) == 'table' then return fields.err end
  if fields ~= 5 then -- else it has what a push without a time writes, and nothing more
    local known = call('HMGET', doc, 'state', 'attempt', 'exception', 'due')
    was, due = known[1], known[4]
    if not was then return end
    first = was == 'pending' and not known[2] and not known[3]
  end
  if not first then
    call('HDEL', doc, 'due', 'ended', 'result', 'left')
    if state == 'done' then call('HDEL', doc, 'exception', 'error') end
    if over then call('HDEL', doc, 'was') end -- without it no cancel that is taken back has the job go on
  elseif due then call('HDEL', doc, 'due') end
  call('HSET', doc, was == 'cancelled' and not over and 'was' or 'state', state, unpack(args, 7 + log))
  if args[4] ~= '' then
    local tries = (tonumber(call('HGET', doc, 'tries') or '') or 0) + 1
    call('HSET', doc, 'tries', tries, 't' .. tries, args[4])
    if tries > 20 then call('HDEL', doc, 't' .. tries - 20) end
  end
  if args[5] ~= '' then call('SET', keys[2], args[5], 'PX', ttl)
  elseif not first or args[4] ~= '' then call('PEXPIRE', keys[2], ttl) end
  if log > 0 then keep(doc, keys[3], args[7], args[8] + 0, args, 9, 6 + log) end
  call('PEXPIRE', doc, ttl)
  if keys[3] then call('PEXPIRE', keys[3], ttl) end
end

-- First runs that have ended well, each with a document of its own: there is nothing to remove.
function many.result(all)
  local args, docs, put, varies, seen = all.args, all.keysof[1], {'state', all.args[1]}, {}, {}
  if not docs or all.keys[3] or all.keysof[3] or args[2] ~= '1' or not args[1] or args[4] ~= '' or args[5] ~= '' or args[6] ~= '0' then return end
  local ttl, ttls, n = args[3], all.argsof[3], 6
  while args[n + 1] or all.argsof[n + 1] do
    n = n + 1
    put[n - 4] = args[n]
    if not args[n] then varies[#varies + 1] = n end
  end
  for i = 1, all.n do
    local fields = not seen[docs[i]] and try('HLEN', docs[i])
    if fields ~= 5 and fields ~= 0 then return end
    seen[docs[i]] = fields
  end
  for i = 1, all.n do
    local doc = docs[i]
    if seen[doc] == 5 then
      for v = 1, #varies do put[varies[v] - 4] = all.argsof[varies[v]][i] end
      call('HSET', doc, unpack(put, 1, n - 4))
      call('PEXPIRE', doc, ttl or ttls[i])
    end
  end
  return true
end
