-- Moves jobs of lmstfy's timer into a page of an import.
--
-- KEYS  1 the timer   2 the import's record   3 its page   then the body of each entry
-- ARGV  1 the id of this Redis, of a record that has none   2 the number of the last page, which was dropped
--       then for each entry: its bytes, state, namespace, queue, id, tries, due, which is its score
-- Returns {jobs moved, entries without a body}
--
-- Atomic: the call. An entry with another score stays. It moves nothing while a page is there or where another import has made one.
-- A job in the page is what claimlist.lua says. Every key is read as its type before the first write, which Redis refuses when
-- it is out of memory.
local n, page, members, bodies = #KEYS - 3, {}, {}, {}
if redis.call('LLEN', KEYS[3]) > 0 or (redis.call('HGET', KEYS[2], 'page') or '0') ~= ARGV[2] then return {0, 0} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 1, n do
  local at = 7 * i - 4
  if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[at]) or '') == tonumber(ARGV[at + 6]) then
    local body, ttl, k = redis.call('GET', KEYS[3 + i]), redis.call('PTTL', KEYS[3 + i]), #page
    members[#members + 1] = ARGV[at]
    if body then
      for j = 1, 6 do page[k + j] = ARGV[at + j] end
      page[k + 7], page[k + 8] = body, ttl < 0 and '0' or string.format('%.0f', now + ttl)
      bodies[#bodies + 1] = KEYS[3 + i]
    end
  end
end
if #members == 0 then return {0, 0} end
if #bodies > 0 then
  redis.call('HSETNX', KEYS[2], 'id', ARGV[1])
  redis.call('HSET', KEYS[2], 'page', string.format('%.0f', ARGV[2] + 1))
  redis.call('RPUSH', KEYS[3], unpack(page))
  redis.call('DEL', unpack(bodies))
end
redis.call('ZREM', KEYS[1], unpack(members))
return {#bodies, #members - #bodies}
