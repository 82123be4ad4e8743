-- Let a trace spend more: its cap becomes A.cap, if it has a lower one, and who waits for that goes on. Returns its money
-- {spent, cap (-1: none), reserved}; nothing for a trace that is not known.

local name = key('trace', A.trace)
local found = call('HMGET', name, 'root', 'spent', 'cap', 'reserved')
if not found[1] then return {} end
local cap = tonumber(found[3] or -1) or 0
if cap >= 0 and cap < A.cap then
  local root = call('HGET', key('task', found[1]), 'flow')
  note(A.by, 'raise', A.trace, root and tenant_of(root) or '', {from_microusd = cap, to_microusd = A.cap})
  cap = A.cap
  call('HSET', name, 'cap', text_of(cap))
  local cursor, _, is_done = wake_trace(A.trace, A.by, '0')
  if not is_done then
    call('HSET', begin_chore('raise', A.trace, root and tenant_of(root) or '-'), 'by', A.by, 'cursor', kept_cursor(cursor))
  end
end
return {tonumber(found[2] or 0) or 0, cap, tonumber(found[4] or 0) or 0}
