-- Writes php-resque's status of a job that runs, if the key exists. The job's commit removes the
-- ticket and writes the next status in one step, so a late call changes nothing.
--
-- KEYS  1 in-flight record   2 status   ARGV  ticket, value
-- Returns whether the status was written. Atomic: the call.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('SET', KEYS[2], ARGV[2], 'XX') and 1 or 0
