-- Let a trace spend more: its cap becomes A.cap, if it has a lower one. Returns its money {spent, cap (-1: none),
-- reserved, the cap before}; nothing for a trace that is not known.

local name = key('trace', A.trace)
local found = call('HMGET', name, 'root', 'spent', 'cap', 'reserved')
if not found[1] then return {} end
local before = tonumber(found[3] or -1)
local cap = before
if before >= 0 and before < A.cap then
  cap = A.cap
  call('HSET', name, 'cap', cap)
end
return {tonumber(found[2] or 0), cap, tonumber(found[4] or 0), before}
