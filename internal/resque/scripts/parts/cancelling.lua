-- The body of cancel.lua, which says what KEYS, ARGV and the answer are. A step of an operation does the same.
local set, kind, entry = KEYS[1], ARGV[1], ARGV[2]
local known = redis.pcall('ZSCORE', set, entry)
if type(known) == 'table' then return known end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due, state, ttl = now, '', 0
if kind == 'ticket' then
  local there = redis.pcall('HEXISTS', KEYS[2], ARGV[4])
  if type(there) == 'table' then return there end
  if there == 0 then return {'none', ''} end
elseif kind == 'keep' then
  if not known then return {'none', ''} end
  due = math.max(due, ARGV[4])
else
  local document = redis.pcall('HMGET', KEYS[2], 'state', 'due', 'ttl')
  if document.err then return document end
  state, due, ttl = document[1] or '', math.max(due, tonumber(document[2] or '') or 0), tonumber(document[3] or '') or 0
  local over = {done = 1, failed = 1, discarded = 1, expired = 1, cancelled = 1}
  if over[state] and not (state == 'cancelled' and known) then return {'over', state} end
end
local past = redis.call('ZRANGEBYSCORE', set, '-inf', '(' .. now, 'LIMIT', 0, 1000)
redis.call('ZREM', set, '', unpack(past))
redis.call('ZADD', set, math.max(due + ARGV[3], tonumber(known or '0')), entry)
local last = redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')
redis.call('PEXPIRE', set, string.format('%.0f', last[2] - now))
if state == 'pending' or state == 'retrying' or state == 'snoozed' then
  redis.call('HSET', KEYS[2], 'state', 'cancelled', 'was', state, 'ended', string.format('%.0f', now))
  for key = 2, 4 do redis.call('PEXPIRE', KEYS[key], string.format('%.0f', math.max(ttl, 1))) end
end
return {known and 'known' or 'new', state}
