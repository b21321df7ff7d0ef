-- The last part of take.lua and takeone.lua: which lanes are next, and the answer.
local shown, waiting = {}, {}
for i = 1, number() do
  local key, most, each = number(), number(), arg() == '1'
  local many = counts[key] or try(key, 'ZCARD') or 0
  if each or many < 4 then shown[i] = {many, try(key, 'ZRANGE', '0', text(most - 1), 'WITHSCORES') or {}}
  else -- Redis is slow at writing many turns
    local names = many > 0 and try(key, 'ZRANGEBYSCORE', '-inf', text(now + 512), 'LIMIT', '0', text(most)) or {}
    local next = #names < min(most, many) and try(key, 'ZRANGE', #names, #names, 'WITHSCORES')
    shown[i] = {many, names, names[1] and try(key, 'ZSCORE', names[1]) or '', next and next[2] or ''}
  end
end
local queue
for i = 1, number() do
  local key = number()
  waiting[i], queue = try(key, 'LLEN') or 0, queue or key
end
local heads, most = {}, number()
if most > 0 and waiting[1] > 0 then heads = try(queue, 'LRANGE', '0', text(most - 1)) or {} end
local flags = (paused and 'p' or '') .. (fenced and 'f' or '') .. (removed and 'r' or '')
if rare and #taken > 0 and redis.call('EXISTS', KEYS[6]) == 1 then flags = flags .. 's' end
local function list(of) return #of > 0 and of end -- Redis is slow at answering a table
return {'ok', flags, text(now), list(taken), list(full), list(shown), list(waiting), list(errors), list(heads), missing}
