-- Answer an ask of a task. Returns the answer that stands, as JSON: the first; false if the task has ended.

local task = load_task(A.task, {'trace', 'state', 'flow'})
if task and LIVE[task.state] and call('HEXISTS', key('answers', A.task), A.ask) == 0 then
  note(A.by, 'answer', A.task, tenant_of(task.flow), {ask = A.ask, answer = A.told})
end
return give(A.task, A.ask, A.text, A.by)
