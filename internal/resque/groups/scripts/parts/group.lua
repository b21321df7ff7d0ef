-- A group is a list. Its first element is '<began> <wait> <quiet> <id> <head>': when the first item came, how long the
-- group waits for more and how long it waits after the latest, all in ms; the id of its job; and how the payload of its job
-- begins. Each other element is an item, '<bytes of all items so far> <when it came> <JSON>'. Its place in the index is when
-- to look at it next.
local function open(list) -- a group; nil: there is none
  local head = call('LINDEX', list, 0)
  if not head then return end
  local began, wait, quiet, id, head = string.match(head, '^(%d+) (%d+) (%d+) (%S+) ({.*)$')
  local last = string.match(call('LINDEX', list, -1), '^%d+ (%d+) ')
  if not began or not last then error('the list is no group of jobs; look at it and remove it', 0) end
  return {began = began + 0, wait = wait + 0, quiet = quiet + 0, id = id, head = head, last = last + 0}
end
local function due(g) -- when to make a job of the group
  local at = g.began + g.wait
  return g.quiet > 0 and math.min(at, g.last + g.quiet) or at
end
local function readable(read, key)
  local answer = try(read, key)
  if type(answer) == 'table' then error(key .. ': ' .. answer.err, 0) end
end
local function push(list, index, queue, queues, id, g) -- makes a job of the group; nothing is written before it is whole
  readable('LLEN', queue)
  readable('SCARD', queues)
  local items, count = {}, call('LLEN', list) - 1
  for from = 1, count, 1000 do -- unpack could not take all at once, and neither could one answer
    for _, item in ipairs(call('LRANGE', list, from, from + 999)) do
      items[#items + 1] = string.match(item, '^%d+ %d+ (.+)$') or error('the list holds what is no item of a group; look at it and remove that', 0)
    end
  end
  local size = string.match(id, '^(%d+):')
  local job = g.head .. table.concat(items, ',') .. ']],"gathered":' .. #items .. ',"id":"' .. g.id .. '"}'
  call('ZREM', index, id) -- Redis allows it as the first write when out of memory, and then the rest
  call('RPUSH', queue, job)
  call('SADD', queues, string.sub(id, #size + 2, #size + 1 + size))
  call('DEL', list)
  return #items
end
