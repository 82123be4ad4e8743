-- Let a tenant spend up to A.cap (none: as much as it likes); who waits for more of its money goes on, in the same step.
-- Returns its money {spent, cap (-1: none), reserved}, and who waited.

local name, short = key('money', A.tenant), key('short', A.tenant)
local found = call('HMGET', name, 'spent', 'cap', 'reserved')
local before = tonumber(found[2] or -1)
if A.cap then call('HSET', name, 'cap', text_of(A.cap)) else call('HDEL', name, 'cap') end
local woken = {}
if before >= 0 and (not A.cap or A.cap > before) then
  woken = call('HGETALL', short)
  for at = 1, #woken, 2 do give(woken[at], woken[at + 1], 'raised', A.by) end
  call('DEL', short)
end
return {tonumber(found[1] or 0), A.cap or -1, tonumber(found[3] or 0), #woken / 2}
