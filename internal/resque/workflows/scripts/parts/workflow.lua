-- The state machine of workflows. A step's letter moves, the joins that count it change, and what follows is sent, in
-- one script: the commit that ends the step's job (arrive.lua), or a script of a client, an operator or the sweep.
--
-- KEYS  of a script that has this part: 1 letters   2 hash   3 go:workflows   4 document   5 go:halted   6 queues
--       7 go:schedule   8 a queue; ARGV[1] is its name
-- Gives functions(): the table at the end of this file. open reads a workflow as w. Its functions change w only; build
--       proves the type of each key and makes the commands. finish runs them and is what such a script returns.
--
-- Atomic: all of it. What is refused, or ends in an error of Lua, has written nothing.
--
-- Letters   of a step: w waits, s sent, y sent and ended by a token, d done, f failed, x not run (its workflow was halted)
--           of a branch, a member of a group that is more than one step: b goes on, g ended well, n badly, t stopped
--           of a handler: h armed, r sent, o over
--           A zero byte is a number that was reserved and not used.
-- Place     a step's field wf: 'joins letter result scope borne kept queue', '-' for none. joins have commas between;
--           '-' is a handler. letter: of the branch that counts for the step. result: under which number its result is
--           kept. borne: c by Collect, i by Ignore. kept: 0 never, n until what follows is sent, 1 always. queue: a hint
-- Fields    of the hash:
--           id, name, meta (JSON), state, began (ms), lock (a name), keep (ms)
--           deadline (length in ms), until (ms)   paused, rest (RunRest), cancels (CancelRunning): '1'
--           bad    how many steps have failed that nothing bears     off   how many steps were not run
--           error  the first such failure                            outside   how many letters are y
--           result 'v <of>': the workflow's own result, see Templates; 'n': null
--           j<j>   a join   p<k>  a scope   s<n>  a template   n:<name>  the number of the step with this name
--           r<n>   a result: JSON; '+' and the list of several values; '!' and the failure in its place; '?' if it was
--                  large, and what follows has been sent with it
--           f<n>   of a failed step, or one that was not run: '<fatal 0|1> <place>\n<failure>\n<template>'
--           i<n>   '<count> <place>' of jobs that were sent first, from n on, and have no template
--           k<n>   '<secret> <within ms> <place>' of a step that ends by a token   y<n>  until when it has time (ms)
--           c<n>   '1': its token has ended it                                    e<n>  the round in which handler n was armed
--           more   the first of a list of steps that the sweep still sends: m<n>  '<count> <next>': so many from n on,
--                  and the next one of the list or '-'                        again  what the sweep sends again
--           held   a counter: joins wait until the sweep looks, although all their members have ended
--           open   the join that is open   next, nextjoin, nextscope  the first numbers that are free
--           list   items: the results of what was added to the open join, if they are kept
--           a<adder>  '<count> <hash> <letter> <letters> <join> <joins> <scope> <scopes>': what was added, then what
--           is reserved
--           stalled  '<first>+<count>,… <why>': lost steps, or '-'     round  of Retry
--           t<j>   traceparents of members of join j that have ended, with commas between: of 32 at most
--           looked   since when (ms) no letter has moved, and BITCOUNT     over  '<state> <ms>': since when it is in it
-- Template  'letter mode of delay ttl cut last record'. record: '<length>:<queue><payload>'. delay: ms, or @ms since
--           1970. ttl: ms until the job is too old; expires_at goes in behind byte last. Values go in behind byte cut,
--           with a comma in front unless that byte is '['; then with one behind unless the next is ']'. mode: n no value; e the failure that called a handler;
--           v values; i values that never become a reference.
--           of: items with commas between. Each is an argument of its own:
--             <n>               the result of number n        <first>+<count>   the results of so many numbers
--             [<items>]         one list                      c[<items>]        one list of {"result":…}, {"error":…}
--             <n>[<items>], <n>c[<items>]   a list that stands for a branch: if r<n> is a failure, that stands for it
--             *                 in a list: the items of the field list
--           A missing result adds no argument, and is null in a list. Several values are several arguments, and in
--           a list one list. A failure is null, but in c[…]. A list of more than 512 results or 1 MiB is
--           a reference: {"goworker":"<workflow>/<item>"}.
-- Join      'left bad stopped kind first count up letter borne over'. left: members that have not ended. bad: members
--           that ended badly and nothing bears. stopped: members that were not run, or whose branch was stopped.
--           kind: j; g the join of a whole graph (bad: steps not done; first and count: the joins in it); z it has
--           sent what it sends, and counts no more.
--           All three 0: it sends count steps from first on; without any it reports g to its branch (letter, in join
--           up). Else with left 0 it reports n or t. In each case its OnComplete handler, over, is sent.
--           letter '+': a join in the graph up. Join 0 without up ends the workflow. A join has a higher number than up.
-- Scope     'up handler borne': the error handler, the scope around it, and whether that failure is borne here
-- States    running sends. failed (without rest), cancelled and expired are halted: a join that ends stops its branch.
--           retrying and paused hold: joins wait until the sweep looks. done: only letters change.
local call, try, match, sub, format = redis.call, redis.pcall, string.match, string.sub, string.format
local places = {}

local function place(text)
  local p = places[text]
  if not p then
    p = {}
    p.joins, p.letter, p.result, p.scope, p.borne, p.kept, p.queue =
      match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.+)$')
    p.name = 'j' .. (p.joins or '')
    places[text] = p
  end
  return p
end

local function joined(traces, more) -- traceparents have 55 bytes
  return sub((traces == '' and '' or traces .. ',') .. more, 1, 32 * 56 - 1)
end

-- Nearly all calls of arrive are of a member that is not the last of its join. All others make these functions first.
local function functions()
  local READ = {'GETRANGE', 'HLEN', 'ZCARD', 'HLEN', 'ZCARD', 'SCARD', 'ZCARD', 'LLEN'} -- proves the type of a key
  local MOST, INLINE, ROOM = 128, 512, 1048576 -- steps that one call sends, results that a step is given, their bytes
  local MANY = 536870912 -- bytes of a string in Redis
  local SMALL = 1024 -- bytes of a result that is kept although what follows has it
  local BRANCH = {s = 'b', y = 'b', d = 'g', f = 'n', x = 't'}
  local ENDED = {d = 'well', g = 'well', f = 'badly', n = 'badly', x = 'stopped', t = 'stopped'}
  local known = {} -- keys whose type is proven

  -- w is the workflow as this call has changed it. Fields and letters are read once; build makes the commands.
  local function field(w, name)
    local value = w.seen[name]
    if value == nil then
      value = call('HGET', w.wf, name)
      w.seen[name] = value
    end
    return value
  end
  local function fetch(w, prefix, first, count) -- many fields in one command
    local names = {}
    for n = first, first + count - 1 do
      if w.seen[prefix .. n] == nil then names[#names + 1] = prefix .. n end
    end
    if #names == 0 then return end
    for i, value in ipairs(call('HMGET', w.wf, unpack(names))) do w.seen[names[i]] = value end
  end
  local function put(w, name, value) w.seen[name], w.put[name] = value, value end -- false: the field goes
  local function number(w, name) return tonumber(field(w, name) or '') or 0 end
  local function add(w, name, n) put(w, name, format('%.0f', math.max(0, number(w, name) + n))) end
  local function look(w, at) w.look = math.min(w.look or at, at) end -- when the sweep looks at it

  local function letter(w, n)
    local p = w.piece -- letters that this call brings
    if not w.letters[n] and p and n >= p.first and n < p.first + #p.letters then
      w.letters[n] = sub(p.letters, n - p.first + 1, n - p.first + 1)
    elseif not w.letters[n] then
      w.letters[n] = call('GETRANGE', w.steps, n, n)
      known[w.steps] = true
    end
    return w.letters[n]
  end
  local function mark(w, n, to)
    local last = w.runs[#w.runs]
    if n >= MANY then error('there is no letter ' .. n) end -- damage: SETRANGE would fail behind other writes
    w.letters[n] = to
    if last and last[1] + #last[2] == n then last[2] = last[2] .. to else w.runs[#w.runs + 1] = {n, to} end
  end
  local function join(w, j)
    local J = w.joins[j]
    if J == nil then
      local left, bad, stopped, kind, first, count, up, branch, borne, over =
        match(field(w, 'j' .. j) or '', '^(%d+) (%d+) (%d+) (%l) (%d+) (%d+) (%S+) (%S+) (%S+) (%S+)$')
      J = left and {left = tonumber(left), bad = tonumber(bad), stopped = tonumber(stopped), kind = kind,
        first = tonumber(first), count = tonumber(count), up = up, letter = branch, borne = borne, over = over}
      w.joins[j] = J or false
    end
    return J
  end
  local function become(w, state)
    if state ~= w.state then put(w, 'state', state) w.became = true end
    w.state = state
    w.halted = state == 'cancelled' or state == 'expired' or state == 'failed' and field(w, 'rest') ~= '1'
    w.held = state == 'done' or state == 'retrying' or not w.halted and field(w, 'paused') == '1'
  end
  local function begin(keys, queue, now, id)
    return {keys = keys, steps = keys[1], wf = keys[2], queues = {[queue] = 8}, read = {}, now = now, id = id, seen = {},
      put = {}, letters = {}, runs = {}, joins = {}, lists = {}, names = {}, due = {}, hashes = {}, sent = 0, bytes = 0}
  end
  local function open(keys, queue, now) -- nil: no such workflow
    local got = call('HMGET', keys[2], 'state', 'rest', 'paused', 'id')
    if not got[1] then return end
    local w = begin(keys, queue, now, got[4] or '')
    w.seen.rest, w.seen.paused, w.state, known[keys[2]] = got[2], got[3], got[1], true
    become(w, w.state)
    w.was_halted = w.halted
    return w
  end
  local function clock() -- Redis's, in ms
    local time = call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
  end

  local function result(w, n) -- its text, and '!' if it is a failure, '+' if it is a list of several values
    local text = field(w, 'r' .. n)
    local mark = text and match(text, '^[!+]')
    w.room = w.room - (text and #text or 0)
    return mark and sub(text, 2) or text or nil, mark
  end
  local function shown(text, mark, how) -- how one result is shown: beside others, in a list, or in one with failures
    if how == 'beside' then
      if mark == '!' then return 'null' end
      if mark == '+' then text = match(text, '^%[(.+)%]$') end
      return text
    elseif how == 'list' then return mark ~= '!' and text or 'null'
    elseif mark == '!' then return '{"error":' .. text .. '}' end
    return '{"result":' .. (text or 'null') .. '}'
  end
  local function items(w, of, at, how, out) -- puts the values of items into out; at is in of
    repeat
      local n, to = match(of, '^(%d*)()', at)
      local count, after = match(of, '^%+(%d+)()', to)
      local caught, inside = match(of, '^(c?)%[()', to)
      if inside then
        local list, text, mark = {}, nil, nil
        at = items(w, of, inside, caught == 'c' and 'caught' or 'list', list) + 1
        if n ~= '' then text, mark = result(w, n) end
        if mark ~= '!' then text, mark = '[' .. table.concat(list, ',') .. ']', nil end
        out[#out + 1] = shown(text, mark, how)
      elseif n ~= '' then
        at, count = after or to, tonumber(count or 1)
        for i = tonumber(n), n + count - 1 do
          if w.room < 0 then break end -- it becomes a reference
          if (i - n) % 64 == 0 and count > 1 then fetch(w, 'r', i, math.min(64, n + count - i)) end
          local text, mark = result(w, i)
          out[#out + 1] = shown(text, mark, how)
        end
      end
      at = at + 1
    until sub(of, at - 1, at - 1) ~= ','
    return at - 1
  end
  local function numbers(item) -- how many results it names
    local all = 0
    for count in string.gmatch(item, '%d+%+?(%d*)') do all = all + (tonumber(count) or 1) end
    return all
  end
  local function value(w, mode, of, how) -- the arguments for a template, with commas between
    if mode == 'e' then return w.failure or 'null' end
    of = string.gsub(of, '%*', function() return field(w, 'list') or '' end)
    local out, at = {}, 1
    repeat
      local list, to = match(of, '^(%d*c?%b[])()', at)
      local item = list or match(of, '^%d+%+?%d*', at) or ''
      local may = list and mode ~= 'i' -- be a reference
      local before = #out
      if not may and numbers(item) > 65536 then error('there are not so many results') end -- damage, or Inline
      w.room = may and (numbers(item) > INLINE and -1 or ROOM) or math.huge
      if w.room > 0 then items(w, item, 1, how, out) end
      if w.room < 0 then out[before + 1] = '{"goworker":"' .. w.id .. '/' .. item .. '"}' end
      at = (to or at + #item) + 1
    until sub(of, at - 1, at - 1) ~= ','
    return table.concat(out, ',')
  end

  local function outside(w, n, due) -- step n, which ends by a token, is sent
    put(w, 'y' .. n, format('%.0f', due + (match(field(w, 'k' .. n) or '', '^%S+ (%d+) ') or 0)))
    add(w, 'outside', 1)
    look(w, w.now)
  end
  -- A job for a queue whose key the script has goes there. Any other goes by the schedule, and so does one with a
  -- priority: the pump puts it in front of those with a lower one.
  local function enqueue(w, record, due)
    local size, at = match(record, '^(%d+):()')
    local name, payload = sub(record, at, at + size - 1), sub(record, at + size)
    local key = w.queues[name]
    w.sent, w.bytes = w.sent + 1, w.bytes + #record
    if key and due <= w.now and sub(payload, 1, 12) ~= '{"priority":' then
      local list = w.lists[key]
      if not list then
        list = {}
        w.lists[key], w.names[#w.names + 1] = list, name
      end
      list[#list + 1] = payload
    else w.due[#w.due + 1] = format('%.0f', due) w.due[#w.due + 1] = record end
  end
  local function following(w, record) -- with the traceparents of what a traced step follows, in the field before wf
    local head = w.after and w.after ~= '' and match(record, '^(.*)"wf":"')
    if not head or sub(head, -11) ~= '"after":"",' then return record end
    return sub(head, 1, -3) .. w.after .. '",' .. sub(record, #head + 1)
  end
  local function due(w, delay) -- ms from now, or @ms since 1970
    local at = match(delay, '^@(%d+)$')
    return math.max(w.now, at and tonumber(at) or w.now + delay)
  end
  local function push(w, n, default, text) -- sends step or handler n
    text = text or field(w, 's' .. n) or ''
    local to, mode, of, delay, ttl, cut, last, at = match(text, '^(%l) (%l) (%S+) (%S+) (%d+) (%d+) (%d+) ()')
    mark(w, n, to or default) -- without a template it is sent and nowhere: the sweep finds it
    if not to then return end
    cut, last = tonumber(cut), tonumber(last)
    local record, time = sub(text, at), due(w, delay)
    local given = mode ~= 'n' and value(w, mode, of, 'beside') or ''
    if given ~= '' then
      local begins = sub(record, cut, cut) == '['
      given = (begins and '' or ',') .. given .. (begins and sub(record, cut + 1, cut + 1) ~= ']' and ',' or '')
      record = sub(record, 1, cut) .. given .. sub(record, cut + 1)
    end
    if to == 'y' then
      if given ~= '' then -- no job of goworker can give its values back when it fails
        put(w, 's' .. n, 'y n - 0 ' .. ttl .. ' 0 ' .. last + #given .. ' ' .. record)
      end
      outside(w, n, time)
    end
    if ttl ~= '0' then
      record = sub(record, 1, last + #given) .. format(',"expires_at":%.0f', time + ttl) .. sub(record, last + #given + 1)
    end
    enqueue(w, following(w, record), time)
  end
  local function send(w, first, count) -- waiting steps
    if count > 1 then fetch(w, 's', first, math.min(count, MOST)) end
    for n = first, first + count - 1 do
      if w.sent >= MOST or w.bytes >= ROOM then
        put(w, 'm' .. n, first + count - n .. ' ' .. (field(w, 'more') or '-'))
        put(w, 'more', n)
        look(w, w.now)
        w.later = true
        return
      end
      if letter(w, n) == '' then return end
      if letter(w, n) == 'w' then push(w, n, 's') end
    end
  end
  local function handler(w, n)
    n = tonumber(n)
    if n and letter(w, n) == 'h' then push(w, n, 'r') end
  end

  local function count(J, how, borne, n) -- n more or fewer members of a join that ended so; nil: not ended
    if not how then J.left = J.left + n end
    if how == 'stopped' then J.stopped = J.stopped + n
    elseif how == 'badly' and borne == '-' or not how and J.kind == 'g' then J.bad = J.bad + n end
  end
  local member, settle
  local function ready(w, J) -- in a graph with failures: what does not need them is sent first
    for i = J.first, J.first + J.count - 1 do
      if not join(w, tostring(i)) then break end
      settle(w, tostring(i))
    end
    return J.left == 0
  end
  local function finished(w, J) -- how a join ends whose members have all ended: the letter of its branch
    if w.halted and (J.stopped > 0 or J.bad == 0 or J.kind == 'g') then return 't' end
    if J.bad > 0 then return 'n' end
    local last = J.kind == 'g' or J.count == 0
    if not last then send(w, J.first, J.count) end
    J.kind, J.changed = 'z', true
    return last and 'g' or 'b'
  end
  local function report(w, J, to) -- to the join around it, or to the workflow
    if J.letter == '+' then -- a join in a graph: the graph's own counts what it sent
      local G = J.kind == 'z' and join(w, J.up)
      if G then
        G.left, G.changed = G.left + J.count, true
        settle(w, J.up)
      end
    elseif J.up ~= '-' then member(w, J.up, tonumber(J.letter), J.borne, to)
    elseif to == 'g' and w.state == 'running' then become(w, 'done') end
  end
  function settle(w, j) -- a join whose counters changed, or that the sweep looks at
    local J, to = join(w, j), 'b'
    if not J or J.kind == 'z' then return end
    if J.left == 0 and not w.held and (w.halted or J.stopped == 0) then
      if J.kind == 'g' and J.bad > 0 and not w.halted and not ready(w, J) then return end
      w.after = w.trace and field(w, 't' .. j)
      to = finished(w, J)
      handler(w, J.over)
    end
    local waits = w.held or J.stopped == 0 and (J.bad == 0 or w.halted and J.kind == 'g')
    if J.left == 0 and J.kind ~= 'z' and w.state ~= 'done' and waits then
      put(w, 'held', format('%.0f', number(w, 'held') + 1)) -- only the sweep settles it
    end
    local own = w.trace
    if own and to ~= 'b' then w.trace = field(w, 't' .. j) or '' end -- what follows the branch follows its last steps
    report(w, J, to)
    w.trace = own
    if own and J.kind == 'z' and field(w, 't' .. j) then put(w, 't' .. j, false) end
  end
  function member(w, joins, n, borne, to) -- letter n, a member of these joins, becomes to
    local was = letter(w, n)
    local how, before = ENDED[to], ENDED[was]
    if was == to then return end
    mark(w, n, to)
    if how == 'well' and borne ~= '-' and match(field(w, 'r' .. n) or '', '^!') then put(w, 'r' .. n, false) end
    for j in string.gmatch(joins, '%d+') do
      local J = join(w, j)
      if J and J.kind ~= 'z' then
        count(J, before, borne, -1)
        count(J, how, borne, 1)
        J.changed = true
        if how and w.trace and w.trace ~= '' then put(w, 't' .. j, joined(field(w, 't' .. j) or '', w.trace)) end
        settle(w, j)
      end
    end
  end

  local function walk(w, k) -- the handlers from a scope outwards, and whether nothing bears the failure
    local handlers = {}
    while tonumber(k) do
      local up, n, borne = match(field(w, 'p' .. k) or '', '^(%S+) (%S+) (%S+)$')
      handlers[#handlers + 1] = n
      if not up or borne ~= '-' then return handlers, not up end
      local outer = tonumber(up) -- a scope has a higher number than the one around it
      if not outer or outer >= tonumber(k) then break end
      k = up
    end
    return handlers, true
  end
  local function bear(w, n, at) -- the failure stands for the result of the step, or of the branch, that bears it
    local borne, j = at.borne, match(at.joins, '%d+$')
    local stands = at.result ~= '-' and at.result or at.letter ~= '-' and at.letter or n
    while borne == '-' do
      local J = join(w, j)
      if not J or not tonumber(J.up) or tonumber(J.up) >= tonumber(j) then return end -- up has a lower number
      borne, stands, j = J.borne, J.letter, J.up
    end
    put(w, 'r' .. stands, '!' .. w.failure)
  end
  local function succeeded(w, n, was, fatal) -- what a failure or a halt had counted is taken back
    if was == 'f' and fatal then add(w, 'bad', -1) elseif was == 'x' then add(w, 'off', -1) end
    if was == 'f' or was == 'x' then put(w, 'f' .. n, false) end
    if w.state == 'failed' and number(w, 'bad') == 0 then
      become(w, number(w, 'off') == 0 and 'running' or 'retrying')
      if w.state == 'retrying' then put(w, 'again', '0 x') end -- the sweep sends what was not run
    end
  end
  local function failed(w, n, at, fatal, failure)
    w.failure = failure ~= '' and failure or 'null'
    bear(w, n, at)
    if not fatal then return end
    if number(w, 'bad') == 0 then put(w, 'error', w.failure) end
    add(w, 'bad', 1)
    if w.state == 'running' then become(w, 'failed') end
  end
  local function wanted(w, at) -- whether a result is kept: also where what takes it is not sent yet
    if at.kept ~= 'n' then return at.kept == '1' end
    if w.later then return true end
    for j in string.gmatch(at.joins, '%d+') do
      local J = join(w, j)
      if J and J.kind == 'j' then return true end
    end
  end
  local function ended(w, n, was, to, text, result, again) -- step n, at this place
    local at, handlers, fatal = place(text), {}, false
    local r = 'r' .. (at.result == '-' and n or at.result)
    if to ~= 'd' or was == 'f' then handlers, fatal = walk(w, at.scope) end
    if was == 'y' then
      add(w, 'outside', -1)
      put(w, 'y' .. n, false)
    end
    if to == 'd' then
      succeeded(w, n, was, fatal)
      if result ~= '' then w.seen[r] = result end
    else
      put(w, 'f' .. n, (fatal and '1 ' or '0 ') .. text .. '\n' .. result .. '\n' .. again)
      if to == 'x' then add(w, 'off', 1)
      else
        failed(w, n, at, fatal, result)
        w.after = w.trace
        if w.state ~= 'cancelled' and w.state ~= 'expired' then
          for _, h in ipairs(handlers) do handler(w, h) end
        end
      end
    end
    if at.letter == '-' then member(w, at.joins, n, at.borne, to)
    else
      mark(w, n, to)
      member(w, at.joins, tonumber(at.letter), at.borne, BRANCH[to])
    end
    if to == 'd' and result ~= '' and at.kept ~= '0' then
      put(w, r, (#result <= SMALL or wanted(w, at)) and result or '?') -- what was sent with it may be sent again
    end
  end
  local function shut(w) -- closes the open join
    local j = field(w, 'open')
    local J = j and join(w, j)
    put(w, 'open', false)
    if not J then return end
    J.left, J.changed = math.max(0, J.left - 1), true
    settle(w, j)
  end

  local function few(w) return letter(w, 512) == '' end -- letters: they are read in one go
  local function sends(w) -- whether steps that were sent may still be there, once this call is written
    if not few(w) then return true end
    local text = call('GETRANGE', w.steps, 0, 511)
    for n = 0, math.max(#text, w.piece and w.piece.first + #w.piece.letters or 0) - 1 do
      local l = w.letters[n] or letter(w, n)
      if l == 's' or l == 'y' then return true end
    end
  end
  local function document(w, write) -- the workflow's state changed: document, go:halted, index
    local now, keep = format('%.0f', w.now), number(w, 'keep')
    local goes_on = w.state == 'running' or w.state == 'retrying'
    local doc = {'state', w.state}
    if not goes_on then doc[3], doc[4] = 'ended', now end
    if w.state == 'failed' or w.state == 'expired' then doc[5], doc[6] = 'error', field(w, 'error') or 'null' end
    if w.state == 'done' then
      local mode, of = match(field(w, 'result') or '', '^(%l) (%S+)')
      local text = mode and mode ~= 'n' and value(w, mode, of, 'list') or ''
      doc[5], doc[6] = 'result', text ~= '' and text or 'null'
      keep = format('%.0f', math.max(1000, keep > 0 and math.min(keep, 1e11) or 3600000))
    end
    if w.begins then
      write('DEL', 4)
      write('HSET', 4, 'workflow', w.begins, 'enqueued', now, 'ttl', number(w, 'keep') > 0 and number(w, 'keep') or 3600000)
    end
    if w.begins or call('EXISTS', w.keys[4]) == 1 then -- what was forgotten stays so
      write('HSET', 4, unpack(doc))
      if goes_on and not w.begins then write('HDEL', 4, 'ended', 'error') end
      if w.state == 'done' then write('PEXPIRE', 4, keep) end
    end
    if w.halted and sends(w) then write('ZADD', 5, now, w.id)
    elseif not w.halted and w.was_halted then write('ZREM', 5, w.id) end
    if w.state == 'done' and few(w) and not field(w, 'lock') then -- it ends by itself
      w.look = nil
      write('ZREM', 3, w.id)
      write('PEXPIRE', 1, keep)
      write('PEXPIRE', 2, keep)
    elseif not w.begins or w.state == 'done' then look(w, w.now) end -- joins that were held, keys to remove later
  end
  local function pages(write, command, i, values) -- many values in several commands
    for from = 1, #values, 2000 do write(command, i, unpack(values, from, math.min(from + 1999, #values))) end
  end
  local function fields(w, write)
    for j, J in pairs(w.joins) do
      if J and J.changed then
        put(w, 'j' .. j, table.concat(
          {J.left, J.bad, J.stopped, J.kind, J.first, J.count, J.up, J.letter, J.borne, J.over}, ' '))
      end
    end
    local set, gone = {}, {}
    for name, v in pairs(w.put) do
      if v then set[#set + 1], set[#set + 2] = name, v else gone[#gone + 1] = name end
    end
    pages(write, 'HSET', 2, set)
    pages(write, 'HDEL', 2, gone)
  end
  local function build(w) -- the commands that write w, or nil, why not, and the key. filled: lists that get jobs, go:halted
    local all, why, wrong = {filled = {}}, nil, nil
    local function write(command, i, ...)
      local key, read = w.keys[i], w.read[i] or READ[i]
      if read and not known[key] then
        local answer = i == 1 and try(read, key, 0, 0) or i > 1 and try(read, key)
        if type(answer) == 'table' then why, wrong = answer.err, key else known[key] = true end
      end
      if command == 'RPUSH' or command == 'LPUSH' or i == 5 then all.filled[#all.filled + 1] = key end
      all[#all + 1] = {command, key, ...}
    end
    fields(w, write) -- first: Redis refuses it when out of memory
    if w.begins then write('DEL', 1) end
    if w.piece then write('SETRANGE', 1, w.piece.first, w.piece.letters) end
    for _, run in ipairs(w.runs) do write('SETRANGE', 1, run[1], run[2]) end
    for _, h in ipairs(w.hashes) do
      for i = h.key, h.key + h.keys - 1 do if h.keys > 1 then write('DEL', i) end end
      pages(write, 'HSET', h.key, h.values)
      write('PEXPIRE', h.key, h.ttl)
    end
    if #w.names > 0 then write('SADD', 6, unpack(w.names)) end
    for i, list in pairs(w.lists) do pages(write, 'RPUSH', i, list) end
    if w.lock then write('SET', 9, w.lock) end -- the name under which it is unique
    if w.head then write('LPUSH', 9, w.head) end -- a job that arrive gives back
    pages(write, 'ZADD', 7, w.due)
    if w.became then document(w, write) end
    if w.halted and w.piece and w.sent > 0 then -- what is added to a batch that has failed is not to run
      write('ZADD', 5, format('%.0f', w.now), w.id)
      look(w, w.now)
    end
    if w.look then write('ZADD', 3, format('%.0f', w.look), w.id) end
    if why then return nil, why, wrong end
    return all
  end
  local function finish(w, ...) -- writes w; the caller returns this: a status and more, or 'refused', why, the key
    local all, why, key = build(w)
    if not all then return {'refused', why, key} end
    for _, command in ipairs(all) do call(unpack(command)) end
    return {...}
  end

  return {begin = begin, open = open, clock = clock, field = field, fetch = fetch, put = put, add = add, number = number,
    look = look, letter = letter, mark = mark, join = join, become = become, value = value, due = due, enqueue = enqueue,
    push = push, outside = outside, send = send, handler = handler, settle = settle, member = member, walk = walk,
    ended = ended, shut = shut, build = build, finish = finish}
end
