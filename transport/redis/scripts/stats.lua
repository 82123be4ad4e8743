-- Per pool: ready, running, and the age in ms of the oldest ready task among the 100 flows that are next.

local function oldest_ready(pool)
  local oldest = now
  for _, flow in ipairs(call('ZRANGE', key('flows', pool), 0, 99)) do
    local id = call('LINDEX', flow, 0)
    local task = id and load_task(id)
    if task and task.state == 'pending' then oldest = math.min(oldest, tonumber(task.accepted)) end
  end
  return now - oldest
end

local rows = {}
for i, pool in ipairs(A.pools) do
  rows[i] = {tonumber(call('HGET', key('pool', pool), 'ready') or 0), call('ZCARD', key('leases', pool)),
             oldest_ready(pool)}
end
return rows
