-- Take tasks off the list of dead letters, a page of it. Returns how many were on it, and where the next page begins ('':
-- there is none).

local wanted, ids, tasks = {}, {}, {}
for _, task in ipairs(A.tasks) do wanted[task] = true end
local page = call('XRANGE', cell('dead'), A.after, '+', 'COUNT', A.count)
for _, entry in ipairs(page) do
  -- the entry's first field is the task
  if wanted[entry[2][2]] then
    ids[#ids + 1] = entry[1]
    tasks[#tasks + 1] = entry[2][2]
  end
end
-- Of very many the first: a hash over all of them would hold the server.
if #ids > 0 then
  note(A.by, 'purge', tasks[1], '', {letters = #ids, tasks = table.concat(tasks, ' ', 1, math.min(#tasks, 50))})
end
call_many('XDEL', cell('dead'), ids)
return {#ids, #page == A.count and '(' .. page[#page][1] or ''}
