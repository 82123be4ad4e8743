-- Let a tenant spend up to A.cap (none: as much as it likes); who waits for more of its money goes on. With
-- A.only_lower a cap that is lower already stays as it is. Returns its money {spent, cap (-1: none), reserved}, and how
-- many went on in this step.

local name = key('money', A.tenant)
local found = call('HMGET', name, 'spent', 'cap', 'reserved')
local before = tonumber(found[2] or -1) or -1  -- what is no number is no cap
if A.only_lower and before >= 0 and (not A.cap or A.cap > before) then A.cap = before end
if before ~= (A.cap or -1) then
  note(A.by, 'fund', A.tenant, A.tenant, {from_microusd = before >= 0 and before or 'no cap', to_microusd = A.cap or 'no cap'})
end
if A.cap then call('HSET', name, 'cap', text_of(A.cap)) else call('HDEL', name, 'cap') end
local cursor, woken, is_done = '0', 0, true
if before >= 0 and (not A.cap or A.cap > before) then
  cursor, woken, is_done = wake_tenant(A.tenant, A.by, '0')
  if not is_done then
    call('HSET', begin_chore('fund', A.tenant, A.tenant), 'by', A.by, 'cursor', kept_cursor(cursor))
  end
end
return {tonumber(found[1] or 0) or 0, A.cap or -1, tonumber(found[3] or 0) or 0, woken}
