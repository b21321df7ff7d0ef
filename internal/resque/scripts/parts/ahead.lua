-- Puts a job with a priority into a list, in front of those with a lower one. The loader puts this file
-- into the scripts that add such jobs to queues or lanes.
--
-- The first bytes of such a job are {"priority":<digit>, and no other bytes count. These jobs are at the head
-- of their list, the higher priority first: a search finds their end in doubling steps, and then by halves. If
-- a stop has put a job without priority in front of them, the search ends there. LINSERT compares every
-- job in front, so at most so many are passed. If more wait, the order among them is open.
local function priority(payload) return tonumber(string.match(payload, '^{"priority":([1-9]),') or 0) end
local passed, hints = 1000, {} -- by list and priority: where the last job went
local function insert(list, payload, level)
  local function stays(i) -- in front
    local job = redis.call('LINDEX', list, i)
    return job and priority(job) >= level
  end
  local hint, low, high, step = list .. level, -1, 0, 1
  local last = math.min(hints[hint] or 0, passed - 1)
  if last > 0 and stays(last) then low, high = last, last + 1 end
  while high < passed and stays(high) do low, high, step = high, math.min(high + step, passed), 2 * step end
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if stays(middle) then low = middle else high = middle end
  end
  hints[hint] = high
  local next = redis.call('LINDEX', list, high)
  if not next or high == passed and stays(-1) then redis.call('RPUSH', list, payload)
  elseif high == 0 then redis.call('LPUSH', list, payload)
  else redis.call('LINSERT', list, 'before', next, payload) end
end
