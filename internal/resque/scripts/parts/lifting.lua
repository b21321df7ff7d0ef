-- The body of lift.lua, which says what KEYS, ARGV and the answer are. A step of an operation does the same.
local known = redis.pcall('ZSCORE', KEYS[1], ARGV[1])
if type(known) == 'table' then return known end
local document = redis.pcall('HMGET', KEYS[2], 'state', 'was', 'due', 'ttl')
if document.err then return document end
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
if document[1] ~= 'cancelled' or not document[2] then return 1 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local delay = math.max(0, (tonumber(document[3] or '') or 0) - now)
redis.call('HSET', KEYS[2], 'state', document[2])
redis.call('HDEL', KEYS[2], 'was', 'ended')
local stays = string.format('%.0f', delay + math.max(ARGV[2], tonumber(document[4] or '') or 0))
for key = 2, 4 do redis.call('PEXPIRE', KEYS[key], stays) end
return 1
