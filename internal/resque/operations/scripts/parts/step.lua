-- A step of an operation: changes of jobs, what is kept of them in the bin, and the counts of the record, in one. The file that
-- has this part defines change(KEYS, ARGV), a script of its own, and changed(answer): the numbers of the jobs that it has
-- changed, from 1; if not nil, why others were not; if not nil, how many these were in place of the numbers; if not nil, names
-- of lists in the bin and how many jobs each of them got or, negative, gave.
--
-- KEYS  1 record   2 operations that run   3 list in the bin   4 list of jobs that have ended   then the keys of the changes
-- ARGV  1 id   2 runner   3 number of the step   4 where the search goes on   5 lease in ms   6 how long the record stays
--       7 and the bin in ms   8 name of the list in the bin   9 counted field: done or back   10 jobs that were looked at
--       11 jobs that could not be changed   12 why   13 number of changes
--       then for each change: how many keys, values and jobs; for each job: what is kept of it, behind < or > for an end of the
--       list in the bin or behind ! for the list of jobs that have ended, or ''; then the values of the changes
-- Returns {'ok', jobs changed, then for each change a list of numbers or why it was refused}; or, without a change, 'lost': the
--       operation is not of this runner, 'stopped': it is to run no more, 'late': this step was done; 'refused', why.
--
-- A change that is refused leaves its own jobs, and the others go on. If all are refused because of Redis, the record stays as it
-- is, and the step can be tried again. Redis allows the first writes of changes that take something away when out of memory,
-- and then all that follow.
local record, running, bin, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for key, read in ipairs({'HLEN', 'ZCARD', 'LLEN', 'LLEN'}) do
  local reply = redis.pcall(read, KEYS[key])
  if type(reply) == 'table' then return {'refused', reply.err, KEYS[key]} end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local has, lease = redis.call('HMGET', record, 'runner', 'state', 'step'), redis.call('ZSCORE', running, ARGV[1])
if has[2] == 'stopped' then return {'stopped'} end
if has[1] ~= ARGV[2] or not lease or lease + 0 < now then return {'lost'} end
if has[3] ~= ARGV[3] then return {'late'} end

local calls, kept, value, key = tonumber(ARGV[13]), 13 + 3 * ARGV[13], 13 + 3 * ARGV[13], 4
for n = 1, calls do value = value + ARGV[13 + 3 * n] end
local count, refused, whole, why, answer, binned, ends = 0, 0, false, ARGV[12], {'ok', 0}, 0, 0
local lists = {}
for n = 1, calls do
  local keys, values, jobs = tonumber(ARGV[11 + 3 * n]), tonumber(ARGV[12 + 3 * n]), tonumber(ARGV[13 + 3 * n])
  local k, v = {}, {}
  for i = 1, keys do k[i] = KEYS[key + i] end
  for i = 1, values do v[i] = ARGV[value + i] end
  local ok, reply = pcall(change, k, v)
  if ok and type(reply) == 'table' and reply.err then ok = false end
  if not ok then
    why = type(reply) == 'table' and reply.err .. (reply.line and ' script: , on @user_script:' .. reply.line .. '.' or '') or tostring(reply)
    refused, whole, answer[n + 2] = refused + jobs, whole or jobs == 0 or not string.find(why, 'WRONGTYPE', 1, true), why
  else
    local there, said, many, named = changed(reply)
    local of = 0
    for _, job in ipairs(there) do
      if job > 0 then
        of = of + 1
        local text = ARGV[kept + job]
        local to = string.sub(text, 1, 1)
        if to == '<' then redis.call('LPUSH', bin, string.sub(text, 2)); binned = binned + 1
        elseif to == '>' then redis.call('RPUSH', bin, string.sub(text, 2)); binned = binned + 1
        elseif to == '!' then redis.call('RPUSH', ended, string.sub(text, 2)); ends = ends + 1 end
      end
    end
    if said then why = said end
    for i = 1, named and #named or 0 do lists[#lists + 1] = named[i] end
    count, answer[n + 2] = count + (many or of), there
  end
  key, value, kept = key + keys, value + values, kept + jobs
end
if count == 0 and whole then return {'refused', why, ''} end
redis.call('HDEL', record, '')
local function add(field, n)
  if n ~= 0 then redis.pcall('HINCRBY', record, field, string.format('%.0f', n)) end
end
add(ARGV[9], count)
add('looked', ARGV[10] + 0)
add('refused', refused + ARGV[11])
add('ended', ends)
if binned > 0 then lists[#lists + 1] = ARGV[8]; lists[#lists + 1] = binned end
for i = 1, #lists, 2 do add('bin:' .. lists[i], lists[i + 1] + 0) end
if binned > 0 then redis.call('PEXPIRE', bin, ARGV[7]) end
if ends > 0 then redis.call('PEXPIRE', ended, ARGV[6]) end
if #lists > 0 and ARGV[9] == 'done' then redis.call('HSET', record, 'bin_ends', string.format('%.0f', now + ARGV[7])) end
redis.call('HSET', record, 'step', string.format('%.0f', ARGV[3] + 1), 'cursor', ARGV[4], 'changed', string.format('%.0f', now))
if why ~= '' then redis.call('HSET', record, 'refusal', why) end
redis.call('PEXPIRE', record, ARGV[6])
redis.call('ZADD', running, string.format('%.0f', now + ARGV[5]), ARGV[1])
redis.call('PEXPIRE', running, ARGV[6])
answer[2] = count
return answer
