-- Put a word into the inbox of a session that is under way. Returns {task, trace} of who runs it; nothing if nobody does.

local holder = call('HGET', key('session', A.session), 'holder') or A.session
local task = load_task(holder)
if not task or not LIVE[task.state] or session_of(task) ~= A.session then return {} end
call('RPUSH', key('inbox', A.session), cjson.encode({text = A.text, by = A.by, at_ms = now}))
call('HSET', key('task', task.id), 'mail', 'new')
if task.state == 'waiting' and wakes_at_first(task.id) then resume(task, 'a prompt came in') end
return {task.id, task.trace}
