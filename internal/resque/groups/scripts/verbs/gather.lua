-- Adds a job's arguments to its group, and makes a job of the group if it is full. The group begins with the first item. What
-- is refused has written nothing: where no job can be made of a full group, the group takes the item and stays.
--
-- keys  group, index of the groups
-- args  id of the group, '<wait> <quiet> <id of its job> <head>' for the first item, the item as JSON, how many items a group
--       has at most, how many bytes its items have at most, numbers of the keys queue and queues
--@group
local known = {} -- by list: the bytes of a group and when its last item came. In one call only this verb changes them.
local function flush(keys, args)
  local queue, queues = string.match(args[6], '(%d+) (%d+)')
  queue, queues = KEYS[queue + 0], KEYS[queues + 0]
  push(keys[1], keys[2], queue, queues, args[1], open(keys[1]))
  fills(queue)
  known[keys[1]] = nil
end
function verbs.gather(job, keys, args)
  local list, item, now = keys[1], args[3], math.floor(job.now)
  local g, room = known[list], args[5] + 0
  if not g then
    local last = call('LINDEX', list, -1)
    if last then
      local bytes, at = string.match(last, '^(%d+) (%d+) ')
      if not bytes then return 'the list is no group of jobs; look at it and remove it' end
      g = {bytes = bytes + 0, last = at + 0}
    end
  end
  if g and (g.last > now or g.bytes + #item + 1 > room) then -- Redis's clock went back, or the item has no room
    flush(keys, args)
    g = nil
  end
  local bytes = (g and g.bytes or 0) + #item + 1
  local entry, length = bytes .. ' ' .. now .. ' ' .. item
  if g then
    length = call('RPUSH', list, entry)
  else
    local wait, quiet = string.match(args[2], '^(%d+) (%d+) ')
    call('ZADD', keys[2], due{began = now, wait = wait + 0, quiet = quiet + 0, last = now}, args[1])
    length = call('RPUSH', list, now .. ' ' .. args[2], entry)
    g = {}
  end
  g.bytes, g.last, known[list] = bytes, now, g
  if length > args[4] + 0 or bytes >= room then pcall(flush, keys, args) end
end
