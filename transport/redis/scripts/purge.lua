-- Take tasks off the list of dead letters; how many were on it.

local wanted, ids = {}, {}
for _, task in ipairs(A.tasks) do wanted[task] = true end
for _, entry in ipairs(call('XRANGE', cell('dead'), '-', '+')) do
  -- the entry's first field is the task
  if wanted[entry[2][2]] then ids[#ids + 1] = entry[1] end
end
call_many('XDEL', cell('dead'), ids)
return #ids
