-- Removes the page of an import, once its jobs are elsewhere.
--
-- KEYS  1 the import's record   2 its page   ARGV  1 the page's number
-- Returns nothing.
--
-- Atomic: the call. A page with another number stays: another import has claimed it.
if redis.call('HGET', KEYS[1], 'page') == ARGV[1] then redis.call('DEL', KEYS[2]) end
