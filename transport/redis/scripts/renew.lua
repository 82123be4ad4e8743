-- Renew the leases that are still held, and reap what is over: who has no free slot claims nothing, and its pool might
-- have no other worker. Returns {lost ids}, {id, reason, ...} of cancelled ones, {expired ids}, and the milliseconds
-- until the next lease, deadline or timer ends (-1: none).

local RENEWED = {'trace', 'state', 'attempt', 'worker', 'pool', 'expires', 'cancel'}

look()
local lost, cancelled, expired, ends_by_pool = {}, {}, {}, {}
for _, lease in ipairs(A.leases) do
  local id = lease[1]
  local task = load_task(id, RENEWED)
  if not task or task.state ~= 'running' or task.attempt ~= lease[2] or task.worker ~= lease[3] then
    lost[#lost + 1] = id
  else
    local ends = ends_by_pool[task.pool] or {}
    ends_by_pool[task.pool] = ends
    ends[#ends + 1] = lease_end()
    ends[#ends + 1] = id
    if task.cancel then
      cancelled[#cancelled + 1] = id
      cancelled[#cancelled + 1] = task.cancel
    elseif now >= task.expires then
      expired[#expired + 1] = id
    end
  end
end
for pool, ends in pairs(ends_by_pool) do call_many('ZADD', key('leases', pool), ends) end
local renewed = {}
for pool in pairs(ends_by_pool) do
  renewed[#renewed + 1] = pool
  reap_leases(pool)
end
reap_deadlines()
reap_timers()
do_chores()
-- Who has a free slot claims, and comes for the chores; a renewal costs more.
return {lost, cancelled, expired, next_end(renewed, A.leases[1] and 'keeper of ' .. A.leases[1][3], 250)}
