-- Put a word into the inbox of a session that is under way. Returns {task, trace} of who runs it; nothing if nobody does,
-- and {0} when the inbox is full.

local holder = call('HGET', key('session', A.session), 'holder') or A.session
local task = load_task(holder)
if not task or not LIVE[task.state] or session_of(task) ~= A.session then return {} end
local inbox = key('inbox', A.session)
if call('RPUSH', inbox, cjson.encode({text = A.text, by = A.by, at_ms = now})) > A.max_prompts then
  call('LTRIM', inbox, 0, A.max_prompts - 1)
  return {0}
end
call('HSET', key('task', task.id), 'mail', 'new')
if task.state == 'waiting' and wakes_at_first(task.id) then resume(task, 'a prompt came in') end
return {task.id, task.trace}
