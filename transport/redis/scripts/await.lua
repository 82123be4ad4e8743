-- A process waits for these tasks. Its name goes into the record of each that has not ended, so that the end is told in
-- the process's own stream (`settle` in life.lua). The names are in one field; a process is named once, however often it asks.
-- Returns {1 if the stream is new: what was asked for before must be asked for again, else 0}, then for each task
-- -1: not known, 0: it will be told, 1: it has ended, 2: too many processes wait for it, look again.

-- Two kilobytes of a record. A person's dashboards and drivers are a handful of processes.
local MAX_NAMES = 128

local stream = key('news', A.process)
local is_new = call('EXISTS', stream) == 0
if is_new then call('XADD', stream, '*', 'ids', '') end
call('PEXPIRE', stream, A.news_ms)

-- Processes that are gone have no stream any more.
local function living(names)
  local kept = {}
  for name in string.gmatch(names, '%S+') do
    if call('EXISTS', key('news', name)) == 1 then kept[#kept + 1] = name end
  end
  return kept
end

local function await(id)
  local record = key('task', id)
  local state, names = unpack(call('HMGET', record, 'state', 'awaited_by'))
  if not state then return -1 end
  if not LIVE[state] and state ~= 'closing' then return 1 end
  names = names or ''
  if string.find(names, A.process, 1, true) then return 0 end
  if #names + 1 >= MAX_NAMES * (#A.process + 1) then
    local kept = living(names)
    if #kept >= MAX_NAMES then return 2 end
    names = table.concat(kept, ' ')
  end
  call('HSET', record, 'awaited_by', names == '' and A.process or names .. ' ' .. A.process)
  return 0
end

local answer = {is_new and 1 or 0}
for i, id in ipairs(A.tasks) do answer[i + 1] = await(id) end
return answer
