-- Pushes jobs: each together with its guards and effects, or plain ones to the tails of their queues.
--
-- A call with plain jobs only:
-- KEYS  1 queues   then the queues, each once   then the key of a soft command, if there is one   then those
--       of new hashes
-- ARGV  if there are new hashes: '#', how many keys they have, how many values follow these, and for each group of
--       equal hashes: how many keys each has, how many hashes, their TTL in ms, how many values, the
--       fields and values. The first key is the hash; of several all are removed first.
--       then '', or '~' and how many values follow: a soft command and its arguments, of which each call gets up
--       to 1000; then for each queue: its name, how many jobs it gets, their payloads
-- Returns nothing, or where a hash has another type its key and the error. A soft command comes last, and its refusal says nothing.
--
-- Any other call. Plain jobs of one place are a run, whose rows push up to 1000 of them each:
-- KEYS  the rows'
-- ARGV  one letter for each key, its type, as in commit.lua; before them '!' if each job has one row lock, a lock that no
--       other job of the call has, and goes to a queue, whose names are all in one set
--       how many values the first write has, and these: a command, its key, arguments. Redis refuses it
--       whenever it would refuse the first write of a job, as when out of memory; it may be repeated.
--       then for each job, or run: the job's bytes or '', how many values the rows have, and the rows, see
--       parts/rows.lua. The bytes are those of a member of the schedule: the queue, then the payload. Guards
--       come first, soft rows last.
-- Returns {'ok', number of jobs and runs pushed, number of refusals, number of values about jobs left, then
--       the refusals: job, key, error…, the jobs left: job, '' or '?', the guard's answer and key…, the
--       lists that were pushed to…}. Jobs and runs are numbered from 1. A refusal with the job '' is of a soft row.
--
-- Atomic: the call. All rows of all jobs are proven before the first is written. If one is refused, or a
-- proof returned '?', nothing is written for any job. A job whose guards do not hold is left; the others
-- are pushed. Guards are read again before a job of several is written, because one before it may have
-- changed them. With '!' none has. The call is refused, whole, when out of memory. Redis does not roll back a script, so
-- every key is first read as its type.
if ARGV[1] == '' or ARGV[1] == '~' or ARGV[1] == '#' then -- this needs no rows, whose functions cost more than one push
  local begin, lists = 1, #KEYS
  if ARGV[1] == '#' then begin, lists = 4 + ARGV[3], lists - ARGV[2] end
  local at, hash = begin + 1, lists + 1 -- hash is the first key of the first one
  if ARGV[begin] == '~' then at, lists = begin + 2 + ARGV[begin + 1], lists - 1 end
  local soft = at - 1
  redis.call('SCARD', KEYS[1])
  for key = 2, lists do redis.call('LLEN', KEYS[key]) end
  local begins -- calls f for each new hash with its first key, how many it has, TTL, first and last value
  if begin > 1 then
    function begins(f)
      local key, group = hash, 4
      while group < begin do
        local each, ttl, to = ARGV[group] + 0, ARGV[group + 2], group + 3 + ARGV[group + 3]
        for _ = 1, ARGV[group + 1] + 0 do
          f(key, each, ttl, group + 4, to)
          key = key + each
        end
        group = to + 1
      end
    end
    local wrong
    begins(function(key)
      local answer = redis.pcall('HLEN', KEYS[key])
      if type(answer) == 'table' then wrong = wrong or {KEYS[key], answer.err} end
    end)
    if wrong then return wrong end
  end
  for key = 2, lists do
    local first, last = at + 2, at + 1 + ARGV[at + 1]
    redis.call('SADD', KEYS[1], ARGV[at]) -- the first write: if it is refused, nothing is written
    if begins and key == 2 then
      begins(function(key, each, ttl, from, to)
        if each > 1 then redis.call('DEL', unpack(KEYS, key, key + each - 1)) end
        redis.call('HSET', KEYS[key], unpack(ARGV, from, to))
        redis.call('PEXPIRE', KEYS[key], ttl)
      end)
    end
    for from = first, last, 1000 do
      redis.call('RPUSH', KEYS[key], unpack(ARGV, from, math.min(from + 999, last)))
    end
    at = last + 1
  end
  for from = begin + 3, soft, 1000 do
    redis.pcall(ARGV[begin + 2], KEYS[lists + 1], unpack(ARGV, from, math.min(from + 999, soft)))
  end
  return
end
local apart = string.byte(ARGV[1]) == 33
if apart then -- while all locks are free, few commands do, and no functions. If not, or if Redis refuses one, the rows say what to do
  -- The 20 values of a job: bytes, 18, lock, 8, 2, key, count, id, until, TTL, replace, ms, SADD, 2, key, queue, tail, 2, key, n
  local try, locks, lists, free = redis.pcall, {}, {}, true
  for at = 3, #ARGV, 20 do
    local n, place = #locks + 1, ARGV[at + 18]
    local list = lists[place]
    if not list then
      list = {key = KEYS[place + 0], queue = ARGV[at + 15], jobs = {}}
      lists[place], lists[#lists + 1] = list, list
    end
    locks[n], list[#list + 1], list.jobs[#list + 1] = KEYS[ARGV[at + 5] + 0], string.sub(ARGV[at], ARGV[at + 19] + 1), n
  end
  for from = 1, #locks, 1000 do
    free = free and try('EXISTS', unpack(locks, from, math.min(from + 999, #locks))) == 0
  end
  free = free and type(try('SCARD', KEYS[ARGV[17] + 0])) == 'number'
  for _, list in ipairs(lists) do free = free and type(try('LLEN', list.key)) == 'number' end
  if free then
    local time, n, at = redis.call('TIME'), 0, 3
    time = string.format('%.0f', math.floor(time[1] * 1000 + time[2] / 1000))
    time = ' ' .. time .. ' ' .. time .. '  '
    while free and n < #locks do
      free = type(try('HSET', locks[n + 1], ARGV[at + 7], ARGV[at + 8] .. time .. ARGV[at])) == 'number'
      if free then -- only then is anything written: when out of memory Redis refuses no write after the first one, not even of the rows
        n = n + 1
        free = type(try('PEXPIRE', locks[n], ARGV[at + 9])) == 'number'
      end
      at = at + 20
    end
    for _, list in ipairs(lists) do free = free and type(try('SADD', KEYS[ARGV[17] + 0], list.queue)) == 'number' end
    for i = 1, free and 0 or n do try('HDEL', locks[i], ARGV[20 * i - 10]) end
  end
  if free then
    local reply, filled = {'ok', #locks, 0, 0}, {}
    for _, list in ipairs(lists) do
      for from = 1, #list, 1000 do
        local to = math.min(from + 999, #list)
        local answer = try('RPUSH', list.key, unpack(list, from, to))
        if type(answer) == 'number' then filled[#filled + 1] = from == 1 and list.key or nil
        else
          reply[2], reply[3] = reply[2] - to + from - 1, reply[3] + to - from + 1
          for i = from, to do
            local r = #reply
            reply[r + 1], reply[r + 2], reply[r + 3] = tostring(list.jobs[i]), list.key, answer.err
          end
        end
      end
    end
    for _, key in ipairs(filled) do reply[#reply + 1] = key end
    return reply
  end
end
--@rows
types = apart and sub(ARGV[1], 2) or ARGV[1]
local jobs, left, at = {}, {}, 3 + ARGV[2]
local function leave(why, answer, key)
  local n = #left
  left[n + 1], left[n + 2], left[n + 3], left[n + 4] = ticket, why, answer, key
end
local asked
while at <= #ARGV do
  local first, last = at + 2, at + 1 + ARGV[at + 1]
  ticket, bytes = tostring(#jobs + 1), ARGV[at]
  local why, key, of = prove(first, last) -- the answer in place of the key, and its key, of a guard
  jobs[#jobs + 1] = {first, last, bytes, why, key, of}
  if why == '' or why == '?' then
    leave(why, key, of)
    asked = asked or why == '?'
  elseif why then refuse(ticket, why, key) end
  at = last + 1
end
if asked or reply[3] > 0 or #left == 4 * #jobs then return finish(left) end

if ARGV[2] ~= '0' then
  local first = try(ARGV[3], KEYS[ARGV[4] + 0], unpack(ARGV, 5, 2 + ARGV[2]))
  if type(first) == 'table' and not string.find(first.err, '^WRONGTYPE') then return first end
end
left = {}
for i, job in ipairs(jobs) do
  ticket, bytes = tostring(i), job[3]
  local why, key, of = job[4], job[5], job[6]
  if #jobs > 1 and not apart then why, key, of = prove(job[1], job[2]) end
  if not why then why, key = write(job[1], job[2]) end
  if why == '' or why == '?' then leave(why, key, of)
  elseif why then refuse(ticket, why, key)
  else reply[2] = reply[2] + 1 end
end
return finish(left)
