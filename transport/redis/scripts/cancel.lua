-- Stop a task and all its descendants. How many were alive; -1 when there is no such task.

if call('EXISTS', key('task', A.task)) == 0 then return -1 end
call('HSET', key('task', A.task), 'cancelled_by', A.by)
return stop({A.task}, A.reason)
