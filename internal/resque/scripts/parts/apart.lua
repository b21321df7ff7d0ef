-- What exchange.lua and take.lua do where the byte limit, limit, is two numbers. The second one is from how many bytes on a payload is in a
-- field of its own, 'p' and the ticket. The ticket has '~' and the prefix then: Redis's Lua hashes every byte of each string that a
-- script makes, so it does not join the two. The field apart has how many such fields there are; without any it
-- is not there, because a release that does not know it counts it as a job.
--
-- A job with a lock is written as one value all the same: producers of older releases look for it there before they take its lock away. What
-- names the lock is behind the arguments, and metadata of 16 KiB at most are behind that.
local large = {}
left, least = string.match(limit, '^(%d+) (%d+)$')
left, least = left + 0, least + 0
function apart(ticket, prefix, payload) -- what the ticket has
  local lock = string.byte(payload, 1, 1) == 123 and 'que":"' or 'unique' -- '{' begins JSON
  if #payload < least or string.find(payload, lock, -20480, true) then return prefix .. payload end
  local n = #large
  large[n + 1], large[n + 2] = 'p' .. ticket, payload
  return '~' .. prefix
end
function payloads() -- writes those fields
  if #large == 0 then return end
  redis.call('HSET', record, unpack(large))
  redis.call('HINCRBY', record, 'apart', #large / 2)
end
