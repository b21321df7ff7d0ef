-- Notes a change that an operator makes, and drops the oldest. Without an entry it only tries whether one could be noted.
--
-- KEYS  1 audit
-- ARGV  1 the entry or ''   2 how many stay
--
-- Atomic: the call. Redis allows the LTRIM as the first write when out of memory, and then the LPUSH: what makes room is noted.
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
if ARGV[1] ~= '' then
  redis.call('LPUSH', KEYS[1], ARGV[1])
  redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
end
