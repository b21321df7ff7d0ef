-- Writes into a process's record which worker ids it has, or is about to register. The record always
-- covers them, so that whatever finds the process dead can unregister them all.
--
-- KEYS  1 process record   2 tombstone   3 workers:heartbeat
-- ARGV  first worker id of a list of queues that the process takes up, or '', then fields and values of
--       the process record; a field without a value is removed
-- Returns 'ok', 'taken' where another process has that worker id, 'reaped' or 'gone'.
--
-- Redis allows an HDEL as the first write when out of memory, and then the others.
if redis.call('EXISTS', KEYS[2]) == 1 then return 'reaped' end
if redis.call('HEXISTS', KEYS[1], 'epoch') == 0 then return 'gone' end
if ARGV[1] ~= '' and redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1 then return 'taken' end
redis.call('HDEL', KEYS[1], '')
for i = 2, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return 'ok'
