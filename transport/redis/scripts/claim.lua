-- Reap what is over, then start up to `slots` tasks, each time of the flow that is furthest behind.
-- Returns {ms until the next lease, deadline or timer ends (-1: none), claims}.

-- These bound the time for which one script holds the server, to about 50 ms: starts, and ids of ended tasks walked over.
local MAX_STARTS, MAX_VISITS = 1000, 5000
local START = {'trace', 'state', 'attempt', 'expires', 'accepted', 'started', 'lost', 'retries', 'envelope',
               'checkpoint', 'session', 'parent', 'flow', 'worker'}
-- After every name of a flow.
local LAST = '\255'

local flows = key('flows', A.pool)
local slots = math.min(A.slots, MAX_STARTS)
local claims, started, leases, visits, pool = {}, {}, {}, 0, pool_of(A.pool)

local function hand_over(task)
  local earlier = task.session and not task.checkpoint and call('HGET', key('session', task.session), 'checkpoint')
  claims[#claims + 1] = {task.id, task.trace, task.attempt, task.envelope, tonumber(task.accepted), now, task.expires,
                         tonumber(task.lost or 0), tonumber(task.retries or 0), tonumber(task.started or now),
                         task.checkpoint, earlier}
end

local function start(task)
  task.attempt = task.attempt + 1
  call('HSET', key('task', task.id), 'state', 'running', 'attempt', task.attempt, 'worker', A.worker,
       'started', task.started or now)
  leases[#leases + 1] = now + A.lease_ms
  leases[#leases + 1] = task.id
  started[#started + 1] = task.id
  enter_flight(task)
  tell(task, 'running', '', A.worker)
  hand_over(task)
end

-- What tenants get: `weight cap`, the cap empty for none.
local tenants = {}

local function tenant_named(name)
  if not tenants[name] then
    local weight, cap = string.match(call('HGET', cell('tenants'), name) or '1', '^(%S+) ?(%S*)$')
    tenants[name] = {name = name, weight = tonumber(weight), cap = tonumber(cap)}
  end
  return tenants[name]
end

-- A flow's stride, and its tenant if that has a cap.
local function know(flow)
  local priority, name = string.match(flow.name, ':([^:]+):([^:]+):[^:]+$')
  local tenant = tenant_named(name)
  flow.stride = math.floor(A.strides[priority] / tenant.weight)
  flow.tenant = tenant.cap and tenant
end

local function full(tenant)
  tenant.running = tenant.running or tonumber(call('HGET', cell('flight'), tenant.name) or 0)
  return tenant.running + (flight[tenant.name] or 0) >= tenant.cap
end

local function crowded(task)
  if not task.parent then return false end
  return tonumber(call('HGET', key('trace', task.trace), 'running_children') or 0) >= A.children_per_trace
end

-- By virtual time, then by name: the order in which Redis sorts them.
local function later(a, b)
  if a.due ~= b.due then return a.due > b.due end
  return a.name > b.name
end

-- The flows that come next. None beyond them is due before `horizon`.
local function next_flows()
  local found = call('ZRANGE', flows, 0, slots - 1, 'WITHSCORES')
  local line = {first = 1, last = #found / 2, horizon = {name = LAST, due = math.huge}}
  for i = 1, line.last do line[i] = {name = found[2 * i - 1], due = tonumber(found[2 * i])} end
  line.whole = line.last < slots
  if not line.whole then line.horizon = {name = line[slots].name, due = line[slots].due} end
  return line
end

-- From the back: a flow that was just served mostly belongs there.
local function put(line, flow)
  local at = line.last
  while at >= line.first and later(line[at], flow) do
    line[at + 1] = line[at]
    at = at - 1
  end
  line[at + 1] = flow
  line.last = line.last + 1
end

-- One visit: start the flow's first task, if it may. Returns why the flow does not stay in line.
local function visit(flow)
  if not flow.stride then know(flow) end
  -- A flow that is held back by one cap passes on the room that it had under the other.
  if flow.tenant and full(flow.tenant) then
    release('trace', string.match(flow.name, '[^:]+$'), 1)
    return 'tenant', flow.tenant.name
  end
  local id = call('LPOP', flow.name)
  -- An emptied flow stays until its turn comes: who submits one by one gains nothing by it. What was held back with it
  -- does not wait for a place that this flow will not take.
  if not id then
    pool.vtime = math.max(pool.vtime, flow.due)
    release('tenant', tenant_of(flow.name), 1)
    release('trace', string.match(flow.name, '[^:]+$'), 1)
    return 'empty'
  end
  local task = load_task(id, START)
  -- Ids of tasks that were ended while they waited are left behind in the list.
  if not task or task.state ~= 'pending' then return end
  if crowded(task) then
    call('LPUSH', flow.name, id)
    release('tenant', tenant_of(flow.name), 1)
    return 'trace', task.trace
  end
  start(task)
  pool.vtime = math.max(pool.vtime, flow.due)
  flow.due = flow.due + flow.stride
  flow.moved = true
end

-- Serve flows as long as it is certain who is next; their new virtual times are written once, at the end.
local function serve(line)
  local moved = {}
  while #claims < slots and visits < MAX_VISITS and line.first <= line.last and not later(line[line.first], line.horizon) do
    local flow = line[line.first]
    line.first = line.first + 1
    visits = visits + 1
    local kind, id = visit(flow)
    if kind then
      call('ZREM', flows, flow.name)
      moved[flow.name] = nil
      if id then hold(kind, id, A.pool, flow.name, flow.due) end
    else
      if flow.moved then moved[flow.name] = flow.due end
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
  local line, seen
  repeat
    line, seen = next_flows(), put_back
    save(serve(line))
  until #claims == slots or visits >= MAX_VISITS or (line.whole and put_back == seen)
  call_many('ZADD', key('leases', A.pool), leases)
  pool.ready = pool.ready - #started
end

-- The answer of this very call was lost: what it has started is still the worker's.
local function hand_over_again(ids)
  for _, id in ipairs(ids) do
    local task = load_task(id, START)
    if task and task.state == 'running' and task.worker == A.worker then
      hand_over(task)
      leases[#leases + 1] = now + A.lease_ms
      leases[#leases + 1] = id
    end
  end
  call_many('ZADD', key('leases', A.pool), leases)
end

local before = recall()
if before then
  hand_over_again(before)
else
  reap_leases(A.pool)
  reap_deadlines()
  reap_timers()
  settle_flight()
  take()
  -- One token wakes one worker; who leaves something behind wakes the next. Who found less than it could take has left
  -- only what a cap holds back.
  if (#claims == slots or visits >= MAX_VISITS) and pool.ready > 0 then ring(A.pool) end
  if #started > 0 then remember(started) end
end
return {next_end({A.pool}), claims}
