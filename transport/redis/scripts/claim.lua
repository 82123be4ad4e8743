-- Reap what is over, then start up to `slots` tasks, each time of the flow that is furthest behind.
-- Returns {ms until the next lease or deadline ends (-1: none), claims}.

-- Bounds the time for which one script holds the server: to about 20 ms.
local MAX_STARTS = 1000
local START = {'trace', 'state', 'attempt', 'expires', 'accepted', 'started', 'lost', 'envelope', 'checkpoint'}

local flows = key('flows', A.pool)
local slots = math.min(A.slots, MAX_STARTS)
local claims, leases, pool = {}, {}, pool_of(A.pool)

local function strides()
  local tenants = {}
  local flat = call('HGETALL', cell('weights'))
  for i = 1, #flat, 2 do tenants[flat[i]] = tonumber(flat[i + 1]) end
  return function(flow)
    local priority, tenant = string.match(flow, ':([^:]+):([^:]+):[^:]+$')
    return math.floor(A.strides[priority] / (tenants[tenant] or 1))
  end
end

local function start(task)
  local attempt = task.attempt + 1
  call('HSET', key('task', task.id), 'state', 'running', 'attempt', attempt, 'worker', A.worker,
       'started', task.started or now)
  leases[#leases + 1] = now + A.lease_ms
  leases[#leases + 1] = task.id
  task.attempt = attempt
  tell(task, 'running', '', A.worker)
  claims[#claims + 1] = {task.id, task.trace, attempt, task.envelope, tonumber(task.accepted), now, task.expires,
                         tonumber(task.lost or 0), task.checkpoint}
end

-- The flows that come next, by virtual time. None beyond them is due before `horizon`.
local function next_flows()
  local found = call('ZRANGE', flows, 0, slots - 1, 'WITHSCORES')
  local line = {first = 1, last = #found / 2, horizon = math.huge}
  for i = 1, line.last do line[i] = {name = found[2 * i - 1], due = tonumber(found[2 * i])} end
  if line.last == slots then line.horizon = line[slots].due end
  return line
end

-- From the back: a flow that was just served mostly belongs there.
local function put(line, flow)
  local at = line.last
  while at >= line.first and line[at].due > flow.due do
    line[at + 1] = line[at]
    at = at - 1
  end
  line[at + 1] = flow
  line.last = line.last + 1
end

-- Serve flows as long as it is certain who is next; their new virtual times are written once, at the end.
local function serve(line, stride_of)
  local moved = {}
  while #claims < slots and line.first <= line.last and line[line.first].due <= line.horizon do
    local flow = line[line.first]
    line.first = line.first + 1
    pool.vtime = math.max(pool.vtime, flow.due)
    local id = call('LPOP', flow.name)
    -- An emptied flow stays until its turn comes: who submits one by one gains nothing by it.
    if not id then
      call('ZREM', flows, flow.name)
      moved[flow.name] = nil
    else
      local task = load_task(id, START)
      -- Ids of tasks that were ended while they waited are left behind in the list.
      if task and task.state == 'pending' then
        start(task)
        flow.due = flow.due + stride_of(flow.name)
        moved[flow.name] = flow.due
      end
      put(line, flow)
    end
  end
  return moved
end

local function save(moved)
  local scores = {}
  for name, due in pairs(moved) do
    scores[#scores + 1] = due
    scores[#scores + 1] = name
  end
  call_many('ZADD', flows, scores)
end

local function take()
  local stride_of, line = strides(), nil
  repeat
    line = next_flows()
    save(serve(line, stride_of))
  until #claims == slots or line.horizon == math.huge
  call_many('ZADD', key('leases', A.pool), leases)
  pool.ready = pool.ready - #claims
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
take()
-- One token wakes one worker; who leaves something behind wakes the next.
if pool.ready > 0 then ring(A.pool) end
return {next_end(), claims}
