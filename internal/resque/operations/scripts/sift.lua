-- A step of an operation that takes jobs out of the bin which must not lie there. They were counted when they came in.
--
-- KEYS and ARGV are those of the step, and of the change those of move.lua: the list is that of the bin, and the jobs go nowhere.
-- Atomic: the call. Returns what the step returns.
local function change(KEYS, ARGV)
--@moving
end
local function changed(answer)
  local left = 0
  for _, job in ipairs(answer) do
    if job > 0 then left = left + 1 end
  end
  return answer, nil, 0, {ARGV[8], -left}
end
--@step
