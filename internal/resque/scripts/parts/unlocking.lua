-- How brief.lua and briefqueues.lua begin. The script sets locks, how many there are. Unless the lease and the epoch are right and nothing is
-- unusual it ends here with nil, and has written nothing. Then the locks are released. A job whose lock cannot be released keeps its ticket.
--
-- Redis uses the objects of a command's first 32 arguments again, so commands for many tickets go in pieces.
local call, try, argv, record = redis.call, redis.pcall, ARGV, KEYS[1]
local most = #argv - locks
local lease = call('ZSCORE', KEYS[3], argv[1])
if not lease or string.byte(lease) == 45 -- '-'
  or call('HGET', KEYS[2], 'epoch') ~= argv[2] or try('EXISTS', KEYS[4], KEYS[6], KEYS[7]) ~= 0 then return end

local refused -- locks: the number of each and the error
local acks, first = 0, most - locks
if locks > 0 then call('HLEN', record) end -- if it is no hash, this ends the script before it writes
for i = 1, locks do
  local answer = try('HDEL', KEYS[#KEYS - locks + i], argv[most + i])
  if type(answer) == 'table' then
    refused = refused or {}
    refused[#refused + 1], refused[#refused + 2] = i, answer.err
    argv[first + i], acks = '', acks - 1 -- no ticket
  end
end
