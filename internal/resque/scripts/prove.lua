-- Tries every command that the other scripts use, on a probe key, so that a missing
-- permission shows at the start and not in the middle of a commit.
--
-- KEYS  1 probe   Returns {} or {command, error} of the first that Redis refuses.
local function refused(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) == 'table' and reply.err then return {command, reply.err} end
end
local k = KEYS[1]
local tries = {
  {'HDEL', k, ''}, {'DEL', k}, {'EXISTS', k}, {'TIME'},
  {'RPUSH', k, '1'}, {'LPUSH', k, '2'}, {'LLEN', k}, {'LRANGE', k, 0, 0}, {'LINDEX', k, 0}, {'LPOS', k, '1'},
  {'LSET', k, 0, '3'}, {'LINSERT', k, 'before', '3', '4'}, {'LREM', k, 0, '1'}, {'LTRIM', k, 0, -1}, {'LPOP', k, 9}, {'DEL', k},
  {'HSET', k, 'a', '1'}, {'HSETNX', k, 'b', '1'}, {'HINCRBY', k, 'a', 1}, {'HGET', k, 'a'}, {'HEXISTS', k, 'a'},
  {'HLEN', k}, {'HKEYS', k}, {'HMGET', k, 'a'}, {'HGETALL', k}, {'HSTRLEN', k, 'a'}, {'PEXPIRE', k, 9000}, {'DEL', k},
  {'ZADD', k, 1, 'a'}, {'ZSCORE', k, 'a'}, {'ZMSCORE', k, 'a'}, {'ZCARD', k}, {'ZRANGE', k, 0, 0}, {'ZRANGEBYSCORE', k, 0, 1}, {'ZREMRANGEBYRANK', k, 9, 9}, {'ZREM', k, 'a'}, {'DEL', k},
  {'SADD', k, 'a'}, {'SCARD', k}, {'SMEMBERS', k}, {'SMISMEMBER', k, 'a'}, {'SREM', k, 'a'}, {'DEL', k},
  {'SET', k, '1', 'EX', 9}, {'EXPIRE', k, 9}, {'GET', k}, {'INCRBY', k, 1}, {'SETRANGE', k, 0, 'a'}, {'GETRANGE', k, 0, 0}, {'BITCOUNT', k}, {'UNLINK', k},
}
for _, try in ipairs(tries) do
  local reply = refused(unpack(try))
  if reply then
    redis.pcall('DEL', k)
    return reply
  end
end
return {}
