-- Changes records of tokens, if all of them still are what the caller has read.
--
-- KEYS  1 records, a hash   ARGV  for each: 1 digest   2 the record as read, '' none   3 the new record, '' none
-- Returns 1, or 0 if one of them has changed: then nothing is written. As one step: the comparison and all writes.
--
-- Redis allows an HDEL as the first write when out of memory, and then every other: a token can be revoked then.
for i = 1, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
end
redis.call('HDEL', KEYS[1], '')
for i = 1, #ARGV, 3 do
  if ARGV[i + 2] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
  end
end
return 1
