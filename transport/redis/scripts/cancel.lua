-- Stop a task and all its descendants. Returns {how many it stopped until now (-1: there is no such task), are there more}.
-- `by` nobody: a submission that could not be finished takes back what it had begun.

local task = load_task(A.task)
if not task then return {-1, 0} end
local chore = key('chore', 'stop.' .. A.task)
local found = call('HMGET', chore, 'open', 'alive')
if found[1] then return {tonumber(found[2] or 0), 1} end
if LIVE[task.state] and not task.cancel and A.by ~= '' then
  if not is_task(A.by) then note(A.by, 'cancel', A.task, tenant_of(task.flow), {reason = A.told}) end
  call('HSET', key('task', A.task), 'cancelled_by', A.by)
end
local alive = stop(A.task, A.reason)
return {alive, call('HGET', chore, 'open') and 1 or 0}
