-- A parent waits no longer for a child: for what waits for all it is as if it had ended. A parent that is not parked now finds
-- the mark when it would be (`missing` in write.lua). Returns -1: there is no such task, 0: nobody waits for it, 1: done.

local child = load_task(A.task, {'trace', 'state', 'parent'})
if not child then return -1 end
local parent = LIVE[child.state] and child.parent and load_task(child.parent)
if not parent or not LIVE[parent.state] then return 0 end

local marked = call('HGET', parent.key, 'background') or ''
if string.find(marked, child.id, 1, true) then return 1 end
local awaits, is_parked = key('awaits', parent.id), parent.state == 'waiting'
if is_parked and (wakes_at_first(parent.id) or call('SISMEMBER', awaits, child.id) == 0) then return 0 end

call('HSET', parent.key, 'background', marked == '' and child.id or marked .. ' ' .. child.id)
if is_parked then
  call('SREM', awaits, child.id)
  if call('EXISTS', awaits) == 0 then resume(parent, 'what it waited for goes on in the background') end
end
return 1
