-- Moves the jobs at the head of a list of lmstfy into a page of an import.
--
-- KEYS  1 the list, whose head is its right end   2 the import's record   3 its page   then the body of each entry
-- ARGV  1 the id of this Redis, of a record that has none   2 the number of the last page, which was dropped
--       then for each entry, the first one first: its bytes, state, namespace, queue, id, tries, due
-- Returns {jobs moved, entries without a body}
--
-- Atomic: the call. It stops at the first entry that is no more where it was, and moves nothing while a page is there or where
-- another import has made one. Each job is state, namespace, queue, id, tries, due, body, when it expires (ms; 0 never). Every key is
-- read as its type before the first write, which Redis refuses when it is out of memory.
local n, page, gone, bodies = #KEYS - 3, {}, 0, {}
if redis.call('LLEN', KEYS[3]) > 0 or (redis.call('HGET', KEYS[2], 'page') or '0') ~= ARGV[2] then return {0, 0} end
local t = redis.call('TIME')
local now, there, moved = t[1] * 1000 + math.floor(t[2] / 1000), redis.call('LRANGE', KEYS[1], -n, -1), 0
for i = 1, n do
  local at = 7 * i - 4
  if there[#there + 1 - i] ~= ARGV[at] then break end
  local body, ttl, k = redis.call('GET', KEYS[3 + i]), redis.call('PTTL', KEYS[3 + i]), #page
  moved = i
  if body then
    for j = 1, 6 do page[k + j] = ARGV[at + j] end
    page[k + 7], page[k + 8] = body, ttl < 0 and '0' or string.format('%.0f', now + ttl)
    bodies[#bodies + 1] = KEYS[3 + i]
  else gone = gone + 1 end
end
if moved == 0 then return {0, 0} end
if #bodies > 0 then
  redis.call('HSETNX', KEYS[2], 'id', ARGV[1])
  redis.call('HSET', KEYS[2], 'page', string.format('%.0f', ARGV[2] + 1))
  redis.call('RPUSH', KEYS[3], unpack(page))
  redis.call('DEL', unpack(bodies))
end
redis.call('LTRIM', KEYS[1], 0, -moved - 1)
return {#bodies, gone}
