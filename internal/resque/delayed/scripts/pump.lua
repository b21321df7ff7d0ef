-- Moves jobs of our own schedule that are due to the tails of their queues, in the
-- order of their times. Those with a priority go in front of jobs with a lower one.
--
-- KEYS  1 schedule   2 queues   3 the names of goworker's own queues   then queues
-- ARGV  most jobs, most bytes, how long in ms a job waits whose queue is refused,
--       then the names of those queues
-- Returns {jobs moved, 1 if more may be due, {names of queues whose keys were missing},
--       {key, error…}, 1 if the first job that is left names no queue}.
--
-- A member is '<length of the queue's name>:<queue><payload>'. Redis allows the empty
-- ZREMRANGEBYRANK as the first write when out of memory, and then the others. Jobs are
-- pushed before they are removed: an error in between doubles them and loses none.
--@ahead
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('SCARD', KEYS[2])
local key_of, jobs, first, refused, errors = {}, {}, {}, {}, {}
local function prove(command, key, list)
  local reply = redis.pcall(command, KEYS[key])
  if type(reply) == 'table' then
    refused[list] = true
    errors[#errors + 1] = KEYS[key]; errors[#errors + 1] = reply.err
  end
end
local function names(key) return string.sub(ARGV[key], 1, 8) == 'msgpack:' and 3 or 2 end
for key = 4, #KEYS do
  key_of[ARGV[key]], jobs[key], first[key] = key, {}, {}
  prove('LLEN', key, key)
  if names(key) == 3 then prove('SCARD', 3, key) end
end
local most, left, chunk, largest = tonumber(ARGV[1]), tonumber(ARGV[2]), 1, 1
local seen, moved, later, wanted, nameless, full = 0, 0, {}, {}, 0, true
local prefix, stop, name -- of the member before: '<length>:<queue>', where that ends, and the queue
while seen < most and left > 0 and full do
  local n = math.min(most - seen, chunk)
  local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', seen, n)
  full = #due == n
  for _, member in ipairs(due) do
    if not prefix or string.sub(member, 1, #prefix) ~= prefix then -- mostly the queue is that of the job before
      local digits, start = string.match(member, '^(%d+):()')
      stop = digits and start + digits - 1
      if not stop or stop < start or stop > #member then
        if #wanted == 0 then nameless = 1 end
        full = false
        break
      end
      prefix, name = string.sub(member, 1, stop), string.sub(member, start, stop)
    end
    local key = key_of[name]
    if not key then
      wanted[#wanted + 1] = name
    elseif #wanted == 0 then
      seen = seen + 1
      if refused[key] then later[#later + 1] = member
      else
        local payload = string.sub(member, stop + 1)
        local list = string.byte(payload, 3) == 112 and priority(payload) > 0 and first[key] or jobs[key] -- 112 is p
        list[#list + 1] = payload
        moved, left = moved + 1, left - #member
      end
    end
    if #member > largest then largest = #member end
  end
  if #wanted > 0 then full = false end
  chunk = math.max(1, math.min(chunk * 4, 256, math.floor(left / largest)))
end
if seen > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 1, 0)
  for key = 4, #KEYS do
    local list = jobs[key]
    if #list + #first[key] > 0 then
      redis.call('SADD', KEYS[names(key)], ARGV[key])
      for _, job in ipairs(first[key]) do insert(KEYS[key], job, priority(job)) end
      for from = 1, #list, 1000 do
        redis.call('RPUSH', KEYS[key], unpack(list, from, math.min(from + 999, #list)))
      end
    end
  end
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, seen - 1)
  for _, member in ipairs(later) do redis.call('ZADD', KEYS[1], now + ARGV[3], member) end
end
return {moved, (full or #wanted > 0 or nameless > 0) and 1 or 0, wanted, errors, nameless}
