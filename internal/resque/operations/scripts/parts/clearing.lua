-- Renames lists of a queue into the bin, whole.
-- KEYS  1 queues   2 lanes   then for each list: the list, the list in the bin, turns of the lane
--       then, if the queue is forgotten: its list, and the turns of each set of its lanes
-- ARGV  1 how long the bin is kept in ms   2 name of a queue that is forgotten or ''
--       then for each list: the name in the bin, its name among the turns and its member of lanes, or '' and ''
-- Returns jobs, {name in the bin, jobs…}. A list stays that the bin has already: its jobs came behind the others.
-- While a list or a turn stays, so does the name of the queue: without it no worker of all queues would find those jobs.
redis.call('SCARD', KEYS[1])
redis.call('SCARD', KEYS[2])
local sizes, total, binned = {}, 0, {}
for key = 3, #ARGV, 3 do
  sizes[key] = redis.call('LLEN', KEYS[key])
  redis.call('ZCARD', KEYS[key + 2])
end
for key = 3, #ARGV, 3 do
  local list, bin, turns, name, own, member = KEYS[key], KEYS[key + 1], KEYS[key + 2], ARGV[key], ARGV[key + 1], ARGV[key + 2]
  if sizes[key] > 0 and redis.call('EXISTS', bin) == 0 then
    redis.call('RENAME', list, bin)
    redis.call('PEXPIRE', bin, ARGV[1])
    total, binned[#binned + 1], binned[#binned + 2] = total + sizes[key], name, sizes[key]
  end
  if own ~= '' and redis.call('EXISTS', list) == 0 then
    redis.call('ZREM', turns, own)
    if redis.call('ZCARD', turns) == 0 then redis.call('SREM', KEYS[2], member) end
  end
end
local left = 0
for key = #ARGV + 1, #KEYS do left = left + redis.call('EXISTS', KEYS[key]) end
if ARGV[2] ~= '' and left == 0 then redis.call('SREM', KEYS[1], ARGV[2]) end
return {total, binned}
