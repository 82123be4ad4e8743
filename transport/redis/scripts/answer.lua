-- Answer an ask of a task. Returns the answer that stands, as JSON: the first; false if the task has ended.

local name = key('answers', A.task)
local state = call('HGET', key('task', A.task), 'state')
local standing = call('HGET', name, A.ask)
if not standing and not LIVE[state] then return false end
if not standing then
  standing = cjson.encode({text = A.text, by = A.by, at_ms = now})
  call('HSET', name, A.ask, standing)
  call('PEXPIRE', name, A.answers_ms)
  arrived(A.task, 'ask:' .. A.ask)
end
return standing
