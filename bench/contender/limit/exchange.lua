-- Forgets the finished jobs and takes new ones, in one step.
-- KEYS[1] hash of the jobs taken and not finished: ticket -> payload
-- KEYS[2] the queue
-- ARGV[1] how many jobs to take at most, ARGV[2] the ticket of the first of them,
-- ARGV[3...] the tickets that are finished
-- Returns the payloads taken, oldest first.
if #ARGV > 2 then
  redis.call('HDEL', KEYS[1], unpack(ARGV, 3))
end
local jobs = redis.call('LPOP', KEYS[2], ARGV[1])
if not jobs or #jobs == 0 then
  return {}
end
local fields = {}
for i, job in ipairs(jobs) do
  fields[2 * i - 1] = string.format('%d', ARGV[2] + i - 1)
  fields[2 * i] = job
end
redis.call('HSET', KEYS[1], unpack(fields))
return jobs
