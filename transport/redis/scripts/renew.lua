-- Renew the leases that are still held. Returns {lost ids}, {id, reason, ...} of cancelled ones, {expired ids}.

local lost, cancelled, expired = {}, {}, {}
for _, lease in ipairs(A.leases) do
  local id = lease[1]
  local task = load_task(id)
  if not task or task.state ~= 'running' or task.attempt ~= lease[2] or task.worker ~= lease[3] then
    lost[#lost + 1] = id
  else
    call('ZADD', key('leases', task.pool), now + A.lease_ms, id)
    if task.cancel then
      cancelled[#cancelled + 1] = id
      cancelled[#cancelled + 1] = task.cancel
    elseif now >= task.expires then
      expired[#expired + 1] = id
    end
  end
end
return {lost, cancelled, expired}
