-- Stop a task and all its descendants. How many were alive; -1 when there is no such task.

local task = load_task(A.task)
if not task then return -1 end
if LIVE[task.state] and not task.cancel then
  if not is_task(A.by) then note(A.by, 'cancel', A.task, tenant_of(task.flow), {reason = A.told}) end
  call('HSET', key('task', A.task), 'cancelled_by', A.by)
end
return stop({A.task}, A.reason)
