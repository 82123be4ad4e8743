-- Reap what is over, then start up to `slots` tasks, each time of the flow that is furthest behind.
-- Returns {ms until the next lease or deadline ends (-1: none), claims}.

local function strides()
  local weights, tenants = A.weights, {}
  local flat = call('HGETALL', cell('weights'))
  for i = 1, #flat, 2 do tenants[flat[i]] = tonumber(flat[i + 1]) end
  return function(flow)
    local priority, tenant = string.match(flow, '^([^:]+):([^:]+):')
    return A.highest_weight / (weights[priority] * (tenants[tenant] or 1))
  end
end

local function start(task)
  local attempt = task.attempt + 1
  local name = key('task', task.id)
  local more = call('HMGET', name, 'envelope', 'checkpoint')
  call('HSET', name, 'state', 'running', 'attempt', attempt, 'worker', A.worker)
  if not task.started then call('HSET', name, 'started', now) end
  call('ZADD', key('leases', A.pool), now + A.lease_ms, task.id)
  task.attempt = attempt
  tell(task, 'running', '', A.worker)
  return {task.id, task.trace, attempt, more[1], tonumber(task.accepted), now, task.expires, tonumber(task.lost or 0),
          more[2]}
end

local function take()
  local flows, stride_of, claims = key('flows', A.pool), strides(), {}
  local vtime = tonumber(call('HGET', key('pool', A.pool), 'vtime') or 0)
  while #claims < A.slots do
    local first = call('ZRANGE', flows, 0, 0, 'WITHSCORES')
    local flow = first[1]
    if not flow then break end
    vtime = math.max(vtime, tonumber(first[2]))
    local id = call('LPOP', key('flow', A.pool .. ':' .. flow))
    -- An emptied flow stays until its turn comes: who submits one by one gains nothing by it.
    if not id then
      call('ZREM', flows, flow)
    else
      local task = load_task(id)
      -- Ids of tasks that were ended while they waited are left behind in the list.
      if task and task.state == 'pending' then
        call('ZINCRBY', flows, stride_of(flow), flow)
        claims[#claims + 1] = start(task)
      end
    end
  end
  if #claims > 0 then
    call('HSET', key('pool', A.pool), 'vtime', vtime)
    call('HINCRBY', key('pool', A.pool), 'ready', -#claims)
  end
  return claims
end

local function next_end()
  local soonest = -1
  for _, name in ipairs({key('leases', A.pool), cell('deadlines')}) do
    local first = call('ZRANGE', name, 0, 0, 'WITHSCORES')
    if first[2] then
      local wait = math.max(tonumber(first[2]) - now, 0)
      if soonest < 0 or wait < soonest then soonest = wait end
    end
  end
  return soonest
end

reap_leases(A.pool)
reap_deadlines()
local claims = take()
-- One token wakes one worker; who leaves something behind wakes the next.
if tonumber(call('HGET', key('pool', A.pool), 'ready') or 0) > 0 then ring(A.pool) end
return {next_end(), claims}
