-- The last part of take.lua and takeown.lua: which lanes are next, and the answer.
local function show(key, most, each) -- the first lanes by their turns; each: with all turns
  local many = counts[key] or try(key, 'ZCARD') or 0
  if each or many < 4 then return {many, try(key, 'ZRANGE', '0', written(most - 1), 'WITHSCORES') or {}} end
  -- Redis is slow at writing many turns
  local names = many > 0 and try(key, 'ZRANGEBYSCORE', '-inf', text(now + 512), 'LIMIT', '0', written(most)) or {}
  local next = #names < min(most, many) and try(key, 'ZRANGE', #names, #names, 'WITHSCORES')
  return {many, names, names[1] and try(key, 'ZSCORE', names[1]) or '', next and next[2] or ''}
end
local function answer(shown, waiting, queue, first, most) -- with so many of the first jobs of a queue in which first wait
  local heads = most > 0 and first > 0 and try(queue, 'LRANGE', '0', written(most - 1)) or {}
  local flags = (paused and 'p' or '') .. (fenced and 'f' or '') .. (removed and 'r' or '')
  if rare and #taken > 0 and redis.call('EXISTS', KEYS[6]) == 1 then flags = flags .. 's' end
  local function list(of) return #of > 0 and of end -- Redis is slow at answering a table
  return {'ok', flags, written(now), list(taken), list(full), shown, waiting, list(errors), list(heads), missing}
end
