-- Takes the first tasks of a queue of delayed, puts the jobs that they are in goworker's words into a queue of
-- goworker's, and reads the next tasks.
--
-- KEYS  1 tasks   2 notifications   3 the queue of the jobs   4 the set of queues   5 the failure list
--       6 failed_queues   7 tasks in hand
-- ARGV  1 the queue's name   2 the failure list's name in failed_queues, or ''   3 how many jobs may wait in the queue
--       4 how many notifications the caller has popped; -1: as many as are missing now
--       5 how many tasks to read   then for each task: its bytes, 'job' or 'failure', the job or the record
-- Returns {tasks taken, popped notifications left, tasks that wait, jobs the queue has room for, the next tasks,
--       tasks that workers of delayed have in hand}
--
-- Atomic: the call. It stops at the first task that differs: another worker has it. Each task that is taken uses up one
-- notification, first those that were popped: so each other worker still finds a task for each notification that it pops.
-- Every key is first read as its type, because Redis does not roll back a script. The first write is the one that Redis
-- refuses when it is out of memory.
local ahead, popped, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local waiting, notified, room = redis.call('LLEN', KEYS[1]), redis.call('LLEN', KEYS[2]), ahead - redis.call('LLEN', KEYS[3])
if popped < 0 then popped = math.max(waiting - notified, 0) end
redis.call('SCARD', KEYS[4])
redis.call('LLEN', KEYS[5])
redis.call('SCARD', KEYS[6])

-- read returns at most n tasks that may be taken now.
local function read(n)
  n = math.min(n, room, popped + notified)
  if n <= 0 then return {} end
  return redis.call('LRANGE', KEYS[1], 0, n - 1)
end

local there, taken, to = read((#ARGV - 5) / 3), 0, {job = {}, failure = {}}
for i, task in ipairs(there) do
  if task ~= ARGV[3 * i + 3] then break end
  local list = to[ARGV[3 * i + 4]]
  list[#list + 1], taken = ARGV[3 * i + 5], i
end
local function push(key, items, set, name)
  for from = 1, #items, 1000 do
    redis.call('RPUSH', key, unpack(items, from, math.min(from + 999, #items)))
  end
  if #items > 0 and name ~= '' then redis.call('SADD', set, name) end
end
if taken > 0 then
  push(KEYS[3], to.job, KEYS[4], ARGV[1])
  push(KEYS[5], to.failure, KEYS[6], ARGV[2])
  redis.call('LTRIM', KEYS[1], taken, -1)
  local used = math.max(taken - popped, 0)
  redis.call('LTRIM', KEYS[2], used, -1)
  waiting, notified, popped, room = waiting - taken, notified - used, math.max(popped - taken, 0), room - #to.job
end
local hands = redis.pcall('HLEN', KEYS[7])
return {taken, popped, waiting, room, read(most), type(hands) == 'number' and hands or 0}
