-- Pushes jobs that each have a lock and nothing else. While all locks are free, few commands do, and no functions. If not, or if
-- Redis refuses one, the jobs get rows as other jobs have them, which say what to do.
--
-- KEYS  queues, the queue of each group, the locks of all jobs, their counts of refusals
-- ARGV  '!', how many groups, for how many ms a holder that was seen is believed; then for each group: how many jobs it has, its
--       queue, what precedes payloads in the schedule, until what the jobs hold their locks, the TTL in ms, '1' to replace a holder,
--       the ids, the payloads. Groups of one queue are in the order of their jobs.
-- Returns how many jobs were pushed, if all were, or else what a call with rows returns. Jobs are numbered by group.
local try, groups, ms, free = redis.pcall, ARGV[2] + 0, ARGV[3], true
local locks, jobs, begins, at = groups + 1, (#KEYS - groups - 1) / 2, {}, 4 -- locks is how many keys precede them
for from = locks + 1, locks + jobs, 1000 do
  free = free and try('EXISTS', unpack(KEYS, from, math.min(from + 999, locks + jobs))) == 0
end
for g = 1, groups do
  free = free and type(try('LLEN', KEYS[g + 1])) == 'number'
  begins[g] = at
  at = at + 6 + 2 * ARGV[at] -- apart: the embedded server's Lua assigns to locals first
end
local n = 0
if free then
  local time = redis.call('TIME')
  time = string.format('%.0f', math.floor(time[1] * 1000 + time[2] / 1000))
  time = ' ' .. time .. ' ' .. time .. '  '
  for _, at in ipairs(begins) do
    local count, said, ttl = ARGV[at] + 0, ARGV[at + 3] .. time .. ARGV[at + 2], ARGV[at + 4]
    for id = at + 6, at + 5 + count do
      free = free and type(try('HSET', KEYS[locks + n + 1], ARGV[id], said .. ARGV[id + count])) == 'number'
      if free then -- only then is anything written: when out of memory Redis refuses no write after the first one, not even of the rows
        n = n + 1
        free = type(try('PEXPIRE', KEYS[locks + n], ttl)) == 'number'
      end
    end
  end
  for _, at in ipairs(begins) do free = free and type(try('SADD', KEYS[1], ARGV[at + 1])) == 'number' end
end
if free then
  local reply = {'ok', jobs, 0, 0}
  n = 0
  for g, at in ipairs(begins) do
    local first, last = at + 6 + ARGV[at], at + 5 + 2 * ARGV[at]
    for from = first, last, 1000 do
      local to = math.min(from + 999, last)
      local answer = try('RPUSH', KEYS[g + 1], unpack(ARGV, from, to))
      if type(answer) ~= 'number' then
        reply[2], reply[3] = reply[2] - to + from - 1, reply[3] + to - from + 1
        for i = from, to do
          local r = #reply
          reply[r + 1], reply[r + 2], reply[r + 3] = tostring(n + i - first + 1), KEYS[g + 1], answer.err
        end
      end
    end
    n = n + last - first + 1
  end
  return reply[3] == 0 and jobs or reply
end
local rows, undo = {'s' .. string.rep('l', groups) .. string.rep('.', 2 * jobs), '0'}, n
n = 0
for g, at in ipairs(begins) do
  local count, queue, prefix, hold, ttl, replace = ARGV[at] + 0, unpack(ARGV, at + 1, at + 5)
  for id = at + 6, at + 5 + count do
    n = n + 1
    if n <= undo then try('HDEL', KEYS[locks + n], ARGV[id]) end
    local job = {prefix .. ARGV[id + count], 18, 'lock', 8, 2, locks + n, locks + jobs + n, ARGV[id], hold, ttl, replace, ms,
      'SADD', 2, 1, queue, 'tail', 2, g + 1, #prefix}
    for _, value in ipairs(job) do rows[#rows + 1] = value end
  end
end
ARGV = rows
