-- What all scripts have in common that write rows: it is a part of parts/rows.lua and of parts/ends.lua, which say what
-- rows are. The script sets record, the key of the record or nil, and for each job ticket; at a push bytes too.
local call, try, byte, sub = redis.call, redis.pcall, string.byte, string.sub
local record, ticket, bytes
local known, filled, reply = {}, {}, {'ok', 0, 0, 0}
local function refuse(ticket, why, key)
  local n = #reply
  reply[3], reply[n + 1], reply[n + 2], reply[n + 3] = reply[3] + 1, ticket, key, why
end
local function fills(list)
  if not filled[list] then filled[list], filled[#filled + 1] = true, list end
end
local function typed(key, t) -- nil, or why the key cannot be read as its type, and the key
  if known[key] or t == '.' then return end
  local read = t == 'h' and 'HLEN' or t == 'l' and 'LLEN' or t == 's' and 'SCARD' or t == 'z' and 'ZCARD'
    or t == 'x' and 'XLEN' or t == 't' and 'GET'
  local answer = read and try(read, key)
  if type(answer) == 'table' then return answer.err, key end
  known[key] = true
end
local function halves() -- the job's bytes, or prefix and payload where the record has them apart, or nil
  if not record then return bytes end
  local text = call('HGET', record, ticket)
  if not text then return end
  if byte(text, 1, 1) ~= 126 or string.find(ticket, '%D') then return text end -- '~'; a leased job has a place for a ticket, and no prefix
  local payload = call('HGET', record, 'p' .. ticket)
  if payload then return sub(text, 2), payload end
end
local function whole() -- the job's bytes, or nil
  local text, payload = halves()
  return payload and text .. payload or text
end
local owns = {head = true, tail = true, later = true, hold = true}
local function own(verb, key, a, text, ms) -- head, tail, later, hold: nil, or why it is refused
  local answer
  if verb == 'hold' then
    answer = try('HSET', key, a, text)
    local taken = answer == 1 and call('HLEN', key) > 1 -- another job has the lock
    if taken then call('HDEL', key, a) elseif type(answer) == 'number' then answer = try('PEXPIRE', key, ms) end
  else
    local text, payload = halves()
    if not text then return 'NOBYTES the record does not have the ticket' end
    if payload and (verb == 'later' or #text ~= a + 0) then text, payload = text .. payload, nil end
    if verb == 'later' then answer = try('ZADD', key, a, text)
    else
      answer = try(verb == 'head' and 'LPUSH' or 'RPUSH', key, payload or sub(text, a + 1))
      if type(answer) == 'number' then fills(key) end
    end
  end
  if type(answer) == 'table' then return answer.err end
end
local verbs, proofs, many, run
local function join() -- only in a call that uses such verbs
  verbs, proofs, many = {}, {}, {}
  local time -- of the call
  local job = setmetatable({}, {__index = function(_, field) -- read when a verb asks for them
    if field == 'bytes' then return whole() end
    time = time or call('TIME')
    return time[1] * 1000 + time[2] / 1000
  end})
  function run(steps, verb, keys, args) -- a verb or its proof: nil, or why it is refused, and the key
    job.ticket = ticket
    local ok, why, key = pcall(steps[verb], job, keys, args)
    if why or not ok then return type(why) == 'table' and why.err or tostring(why), key or keys[1] or '', keys[1] or '' end
  end
--@verbs
end
local function finish(left) -- the answer
  reply[4] = #left
  for i = 1, #left do reply[#reply + 1] = left[i] end
  for i = 1, #filled do reply[#reply + 1] = filled[i] end
  return reply
end
