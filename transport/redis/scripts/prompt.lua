-- Put a word into the inbox of a session that is under way. Returns {task, trace} of who runs it; nothing if nobody does,
-- and {0} when the inbox is full: of prompts, or of bytes.

local holder = call('HGET', key('session', A.session), 'holder') or A.session
local task = load_task(holder)
if not task or not LIVE[task.state] or session_of(task) ~= A.session then return {} end
local inbox = key('inbox', A.session)
local word = cjson.encode({text = A.text, by = A.by, at_ms = now})
if call('LLEN', inbox) >= A.max_prompts then return {0} end
local size = #word
for _, unheard in ipairs(call('LRANGE', inbox, 0, -1)) do size = size + #unheard end
if size > A.max_bytes then return {0} end
call('RPUSH', inbox, word)
call('HSET', key('task', task.id), 'mail', 'new')
if task.state == 'waiting' and wakes_at_first(task.id) then resume(task, 'a prompt came in') end
return {task.id, task.trace}
