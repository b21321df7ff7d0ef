-- keep appends captured log lines of a run to the list of its job: 100 lines and 65536 bytes in all runs.
-- Lines that do not fit are dropped. The document counts the lines of the latest run, so that a line which
-- comes a second time is written once. lines[from] is the first line behind the before lines that came earlier.
-- The file that has this part defines call and try.
local function keep(doc, list, run, before, lines, from, to)
  local count = to >= from and try('LLEN', list)
  if type(count) ~= 'number' then return end -- no lines, or the key is another program's
  local of, seen = string.match(call('HGET', doc, 'logged') or '', '^(.*) (%d+)$')
  seen = of == run and seen + 0 or 0
  local bytes = tonumber(call('HGET', doc, 'log_bytes') or '') or 0
  for i = from + math.max(0, seen - before), to do
    if count < 100 and bytes + #lines[i] <= 65536 then
      count, bytes = call('RPUSH', list, lines[i]), bytes + #lines[i]
    end
  end
  call('HSET', doc, 'log_bytes', bytes, 'logged', run .. ' ' .. string.format('%.0f', math.max(seen, before + to - from + 1)))
end
