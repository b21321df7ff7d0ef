-- Announces a command to processes, and changes rules, in one step with the line of the audit.
--
-- KEYS  1 notice   2 commands   3 rules   4 audit   where there are changes   5 numbers of limits   6 paused queues
-- ARGV  1 channel   2 how long the notice stays in ms   3 how long the commands stay in ms   4 about how many commands stay
--       5 how many rules at most   6 line of the audit or ''   7 how many lines stay   8 message or ''   9 its signature   10 how
--       many rules, for each its name, what it must be now and what it becomes: '=' and a value, or '-' for none; '' for anything;
--       then for each change beside the rules 'HSET', 'HDEL', 'SADD' or 'SREM', the limit or the queue, and the number or ''
-- Returns {'ok', id of the command or '', number of the rules or '', clients that heard of it}; {'changed', a rule that is not as
--       it must be} or {'full'}: then nothing is written. Of clients -1 says that Redis refuses the channel.
--
-- Atomic: the call. What is read comes first, so a key of a wrong type stops it before it writes. Redis allows the HDEL as the
-- first write when out of memory, and then all that follow. The line of the audit is written before what it is about: if Redis refuses
-- a later command to the user, the audit may say too much, and nothing has changed without a line.
redis.call('HLEN', KEYS[1])
if ARGV[8] ~= '' then redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1) end
if ARGV[6] ~= '' then redis.call('LLEN', KEYS[4]) end
local rules, last = redis.call('HLEN', KEYS[3]), 10 + 3 * ARGV[10]
for i = 11, last, 3 do
  local is = redis.call('HGET', KEYS[3], ARGV[i])
  if is and ARGV[i + 2] == '-' then rules = rules - 1 end
  if not is and ARGV[i + 2] ~= '-' then rules = rules + 1 end
  is = is and '=' .. is or '-'
  if ARGV[i + 1] ~= '' and ARGV[i + 1] ~= is then return {'changed', ARGV[i]} end
end
for i = last + 1, #ARGV, 3 do
  if string.sub(ARGV[i], 1, 1) == 'H' then redis.call('HLEN', KEYS[5]) else redis.call('SCARD', KEYS[6]) end
end
if last > 10 and rules > tonumber(ARGV[5]) then return {'full'} end
redis.call('HDEL', KEYS[1], '')
if ARGV[6] ~= '' then
  redis.call('LPUSH', KEYS[4], ARGV[6])
  redis.call('LTRIM', KEYS[4], 0, ARGV[7] - 1)
end
local id, number = '', ''
for i = 11, last, 3 do
  if ARGV[i + 2] == '-' then
    redis.call('HDEL', KEYS[3], ARGV[i])
  else
    redis.call('HSET', KEYS[3], ARGV[i], string.sub(ARGV[i + 2], 2))
  end
end
for i = last + 1, #ARGV, 3 do
  if ARGV[i] == 'HSET' then
    redis.call('HSET', KEYS[5], ARGV[i + 1], ARGV[i + 2])
  else
    redis.call(ARGV[i], KEYS[ARGV[i] == 'HDEL' and 5 or 6], ARGV[i + 1])
  end
end
if last > 10 then
  local time = redis.call('TIME')
  number = time[1] .. string.format('%06d', time[2])
  redis.call('HSET', KEYS[1], 'rules', number)
end
if ARGV[8] ~= '' then
  id = redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', 'm', ARGV[8], 's', ARGV[9])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
  redis.call('HSET', KEYS[1], 'command', id)
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local heard = redis.pcall('PUBLISH', ARGV[1], id ~= '' and 'command' or 'rules')
return {'ok', id, number, type(heard) == 'number' and string.format('%.0f', heard) or '-1'}
