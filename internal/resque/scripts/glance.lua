-- Looks at lists: how long they are, what is at their ends, and how many elements came behind one.
--
-- KEYS  lists
-- ARGV  1 the size of an element up to which it is returned whole   2 how many elements are searched
--       then for each list the element that was its last one at an earlier time, or ''
-- Returns for each list {its length, its head or '', digest of a head that is not returned or '', its last element or '', how
--       many elements are behind the earlier last one or -1}, or the error with which Redis refuses the key. It writes nothing.
local whole, far, answer = tonumber(ARGV[1]), tonumber(ARGV[2]), {}
for i, key in ipairs(KEYS) do
  local length = redis.pcall('LLEN', key)
  if type(length) == 'table' then
    answer[i] = length.err
  else
    local head, last = redis.call('LINDEX', key, 0) or '', redis.call('LINDEX', key, -1) or ''
    local behind, earlier = -1, ARGV[2 + i]
    if earlier ~= '' and length > 0 then
      local at = redis.call('LPOS', key, earlier, 'RANK', -1, 'MAXLEN', far)
      if at then behind = length - 1 - at end
    end
    local digest = ''
    if #head > whole then head, digest = '', redis.sha1hex(string.sub(head, 1, 65536)) end
    answer[i] = {length, head, digest, #last <= whole and last or '', behind}
  end
end
return answer
