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
-- ARGV  one letter for each key, its type, as in commit.lua
--       how many values the first write has, and these: a command, its key, arguments. Redis refuses it
--       whenever it would refuse the first write of a job, as when out of memory; it may be repeated.
--       then for each job, or run: the job's bytes or '', how many values the rows have, and the rows, see
--       parts/rows.lua. The bytes are those of a member of the schedule: the queue, then the payload. Guards
--       come first, soft rows last.
-- Returns {'ok', number of jobs and runs pushed, number of refusals, number of values about jobs left, then
--       the refusals: job, key, error…, the jobs left: job, '' or '?', the guard's answer and key…, the
--       lists that were pushed to…}. Jobs and runs are numbered from 1. A refusal with the job '' is of a soft row.
--
-- A call of jobs that each have a lock, which no other job of the call has, and nothing else, and go to the tails of queues whose
-- names are all in one set: see parts/locking.lua.
--
-- Atomic: the call. All rows of all jobs are proven before the first is written. If one is refused, or a
-- proof returned '?', nothing is written for any job. A job whose guards do not hold is left; the others
-- are pushed. Guards are read again before a job of several is written, because one before it may have
-- changed them. Of jobs that have nothing but locks of their own none has. The call is refused, whole, when out of memory. Redis
-- does not roll back a script, so every key is first read as its type.
local KEYS, ARGV = KEYS, ARGV -- for jobs that have just locks rows may be made in their place
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
local apart = ARGV[1] == '!'
if apart then
--@locking
end
--@rows
types = ARGV[1]
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
