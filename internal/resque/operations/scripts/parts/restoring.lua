-- Puts jobs from a list in the bin back into the list that they came from, in their order.
-- KEYS  1 list in the bin   2 list   3 queues   4 lanes   5 turns
-- ARGV  1 'head' or 'tail'   2 how many at most, and how many jobs of the list may change places for more   3 name in the bin
--       4 name of the queue or ''   5 name among the turns and 6 member of lanes, or '' and ''
-- Returns jobs, {name in the bin, minus the jobs}.
--
-- A list to which few jobs came meanwhile is put behind those in the bin, and the bin's list takes its name: a million jobs
-- come back in one step. That needs PERSIST, or the list would end with the bin's time. Redis allows it, the LTRIM and the DEL
-- as the first writes when out of memory, and then all that follow.
local bin, list, most = KEYS[1], KEYS[2], tonumber(ARGV[2])
local size, there = redis.call('LLEN', bin), redis.call('LLEN', list)
redis.call('SCARD', KEYS[3])
redis.call('SCARD', KEYS[4])
redis.call('ZCARD', KEYS[5])
local function push(to, with, texts)
  for from = 1, #texts, 1000 do redis.call(with, to, unpack(texts, from, math.min(from + 999, #texts))) end
end
local back = size
if size > 0 and (there == 0 or ARGV[1] == 'head' and there <= most and size > most) and type(redis.pcall('PERSIST', bin)) == 'number' then
  local behind = there > 0 and redis.call('LRANGE', list, 0, -1) or {}
  redis.call('DEL', list)
  push(bin, 'RPUSH', behind)
  redis.call('RENAME', bin, list)
elseif size > 0 then
  back = math.min(size, most)
  if ARGV[1] == 'head' then
    local last, texts = redis.call('LRANGE', bin, -back, -1), {}
    for i = #last, 1, -1 do texts[#texts + 1] = last[i] end
    redis.call('LTRIM', bin, 0, -1 - back)
    push(list, 'LPUSH', texts)
  else
    local first = redis.call('LRANGE', bin, 0, back - 1)
    redis.call('LTRIM', bin, back, -1)
    push(list, 'RPUSH', first)
  end
end
if back > 0 then
  if ARGV[4] ~= '' then redis.call('SADD', KEYS[3], ARGV[4]) end
  if ARGV[5] ~= '' then
    redis.call('SADD', KEYS[4], ARGV[6])
    redis.call('ZADD', KEYS[5], 0, ARGV[5])
  end
end
return {back, {ARGV[3], -back}}
