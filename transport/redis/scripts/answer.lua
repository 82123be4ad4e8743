-- Answer an ask of a task. Returns the answer that stands, as JSON: the first; false if the task has ended.
-- `instead`: an answer that is none, because nobody has signed it. If just this one stands, it goes, and then the ask has
-- no answer (where there is no `text`) or this one.

local name = key('answers', A.task)
local standing = call('HGET', name, A.ask)
if standing and standing == A.instead then
  call('HDEL', name, A.ask)
  standing = false
end
if not A.text then return standing end
local task = load_task(A.task, {'trace', 'state', 'flow'})
if task and LIVE[task.state] and not standing then
  local details = {ask = A.ask, answer = A.told}
  for field, value in pairs(A.recorded) do details[field] = value end
  note(A.by, 'answer', A.task, tenant_of(task.flow), details)
end
return give(A.task, A.ask, A.text, A.by, A.signed)
