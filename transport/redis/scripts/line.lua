-- Second part: who is next. In a pool stand lanes, one for each tenant; in a lane flows; in a flow tasks. Lanes and flows
-- stand by virtual time, in two levels of sorted sets; what a cap holds back stands aside. docs/protocol.md has the
-- algorithm. Lanes and flows go by the whole names of their keys, which say where they belong. (That of a trace's flow is
-- longer than 64 bytes, so that Redis keeps a lane in a skip list: in its compact form each move among 100 flows costs
-- five times as much.)

-- Figures of pools, running tasks of tenants and children of traces: changed here, written once, by `settle_line`.
local pools, flight, left_by_pool = {}, {}, {}
-- By how much the number of a tenant's tasks in line has changed.
local queued = {}

local function pool_of(name)
  if not pools[name] then
    local found = call('HMGET', key('pool', name), 'vtime', 'ready')
    local vtime, ready = number(found[1]), number(found[2])
    pools[name] = {name = name, lanes = {}, vtime = vtime, ready = ready, stored_vtime = vtime, stored_ready = ready}
  end
  return pools[name]
end

-- A lane has a virtual time of its own for as long as it stands in line or aside; 0: it does not.
local function lane_of(pool, name)
  if not pool.lanes[name] then
    local vtime = number(call('HGET', key('pool', pool.name), name))
    pool.lanes[name] = {name = name, vtime = vtime, stored_vtime = vtime}
  end
  return pool.lanes[name]
end

local tenants_of = {}

local function tenant_of(flow)
  tenants_of[flow] = tenants_of[flow] or string.match(flow, '^[^:]+')
  return tenants_of[flow]
end

-- Tasks that wait for people stand in `asking`, of all and of their tenant, by the moment at which they began to wait;
-- those that have parked for children alone in `parked` of their pool. Whatever deletes what a task awaits takes it out.
local function asks_no_more(id, flow)
  if call('ZREM', cell('asking'), id) == 0 then return false end
  call('ZREM', key('asking', tenant_of(flow)), id)
  return true
end

local function asks_for_no_money(task)
  call('HDEL', key('short', tenant_of(task.flow)), task.id)
  call('HDEL', key('capped', task.trace), task.id)
end

local function group_of(flow) return string.match(flow, '^[^:]+:[^:]+:(.*)') end

-- What the key of a lane or a flow says of it: its kind, pool, tenant, and a flow's priority. (Read from its beginning:
-- a pattern that is looked for up to the end takes a fifth of a claim's time.)
local function place_of(name) return string.match(name, '^(%a+):([^:]+):([^:]+):?([^:]*)', #PREFIX + 2) end

local function tenant_of_lane(name)
  local _, _, tenant = place_of(name)
  return tenant
end

local function held_lanes(tenant) return key('held', 'tenant:' .. tenant) end
local function held_flows(trace) return key('held', 'trace:' .. trace) end

-- One more in a line, a little later than the one before, so that those with a single task start in the order in which
-- they came. `times`: the pool or lane whose virtual time rules the line. What stands aside in `held` comes back.
local function stand(line_key, name, times, held)
  if call('ZADD', line_key, 'NX', times.vtime + A.tick, name) == 0 then return end
  local distance = call('ZSCORE', held, name)
  if distance then
    call('ZREM', held, name)
    call('ZADD', line_key, times.vtime + distance, name)
  else
    times.vtime = times.vtime + A.tick
  end
end

local function stand_in_pool(pool, lane, tenant)
  if lane.stands then return end
  lane.stands = true
  lane.vtime = math.max(lane.vtime, A.tick)
  stand(key('lanes', pool.name), lane.name, pool, held_lanes(tenant))
end

-- Places in line for tasks of one flow: at its tail (RPUSH), or at its head (LPUSH) for those that have waited before.
local function enqueue_all(push, pool_name, flow, ids)
  local tenant = tenant_of(flow)
  local pool, list = pool_of(pool_name), key('flow', pool_name .. ':' .. flow)
  local lane = lane_of(pool, key('flows', pool_name .. ':' .. tenant))
  call_many(push, list, ids)
  pool.ready = pool.ready + #ids
  queued[tenant] = (queued[tenant] or 0) + #ids
  stand_in_pool(pool, lane, tenant)
  stand(lane.name, list, lane, held_flows(group_of(flow)))
end

local function enqueue_again(task) enqueue_all('LPUSH', task.pool, task.flow, {task.id}) end

-- A lane that has left the line begins to count anew when it comes back.
local function forget(lane) lane.vtime, lane.stands = 0, nil end

-- A held one stands aside with its distance from the virtual time: it keeps its place in line, and saves up nothing.
local function hold(held, name, due, times) call('ZADD', held, math.max(0, due - times.vtime), name) end

-- How many of one kind are looked at in one step.
local PAGE = math.min(50, A.tasks_per_script)

-- Drop what stands stale at the head of a flow. True: nothing is left. False: a task that waits. nil: there was no time.
local function sweep_flow(flow)
  while work_left > 0 do
    local ids = call('LRANGE', flow, 0, PAGE - 1)
    if #ids == 0 then return true end
    for i, id in ipairs(ids) do
      spend(LOOK)
      if call('HGET', key('task', id), 'state') == 'pending' then
        call('LTRIM', flow, i - 1, -1)
        return false
      end
    end
    call('LTRIM', flow, #ids, -1)
  end
end

local function sweep_lane(pool, name)
  local kept = 0
  repeat
    local flows = call('ZRANGE', name, kept, kept + PAGE - 1)
    for _, flow in ipairs(flows) do
      spend(LOOK)
      local is_empty = sweep_flow(flow)
      if is_empty == nil then return false end
      if is_empty then call('ZREM', name, flow) else kept = kept + 1 end
    end
  until #flows == 0
  if kept > 0 then return true end
  pool.vtime = math.max(pool.vtime, tonumber(call('ZSCORE', key('lanes', pool.name), name) or 0))
  call('ZREM', key('lanes', pool.name), name)
  call('ZREM', held_lanes(tenant_of_lane(name)), name)
  forget(lane_of(pool, name))
  return true
end

-- Nothing is left in line but ids of tasks that have ended: a pool that nobody serves would keep them for ever. False:
-- there was no time for all of it.
local function sweep_some(pool)
  local cursor = '0'
  repeat
    for name, lane in pairs(pool.lanes) do
      if lane.vtime > 0 and not sweep_lane(pool, name) then return false end
    end
    if work_left <= 0 then return false end
    spend(LOOK)
    local page = call('HSCAN', key('pool', pool.name), cursor, 'COUNT', PAGE)
    cursor = page[1]
    for at = 1, #page[2], 2 do
      local name = page[2][at]
      if name ~= 'vtime' and name ~= 'ready' and not pool.lanes[name] then
        if not sweep_lane(pool, name) then return false end
      end
    end
  until cursor == '0'
  call('DEL', key('bell', pool.name))
  if call('EXISTS', cell('chores')) == 1 then ring(pool.name) end
  return true
end

local function sweep(pool)
  if not sweep_some(pool) then begin_chore('sweep', pool.name, '-') end
end

local function put_back_flow(pool, tenant, flow, distance)
  local lane = lane_of(pool, key('flows', pool.name .. ':' .. tenant))
  stand_in_pool(pool, lane, tenant)
  call('ZADD', lane.name, 'NX', lane.vtime + distance, flow)
end

-- There is room again under a cap, and all that it held comes back: it may be that only one pool has a free slot. Who
-- finds the room taken stands aside again.
local function release(held)
  local back = call('ZRANGE', held, 0, -1, 'WITHSCORES')
  if #back == 0 then return end
  call('DEL', held)
  for at = 1, #back, 2 do
    local name, distance = back[at], tonumber(back[at + 1])
    local kind, pool_name, tenant = place_of(name)
    local pool = kind and pool_of(pool_name)  -- somebody may have put junk in between
    if kind == 'flow' then
      put_back_flow(pool, tenant, name, distance)
      if pool.ready == 0 then sweep(pool) end
    elseif kind then
      call('ZADD', key('lanes', pool_name), 'NX', pool.vtime + distance, name)
    end
    if kind and pool.ready > 0 then ring(pool_name) end
  end
end

-- The pool of drivers. They count under no tenant's cap, for they would hold back what they wait for: tasks of other
-- pools. A test compares the name with envelope/agents.py.
local DRIVERS = 'orchestrator'

-- A start counts for its tenant, and a child's for its trace.
local function enter_flight(task, pool)
  local tenant = tenant_of(task.flow)
  if pool == DRIVERS then
    call('HSET', task.key, 'uncounted', 1)
  else
    flight[tenant] = (flight[tenant] or 0) + 1
  end
  if task.parent then call('HINCRBY', key('trace', task.trace), 'running_children', 1) end
end

-- The task no longer runs: its lease ends, and what it held is free for others.
local function leave_flight(task)
  local tenant, left = tenant_of(task.flow), left_by_pool[task.pool]
  if task.holds then
    call('DEL', key('awaits', task.id))
    call('HDEL', key('task', task.id), 'holds')
    asks_for_no_money(task)
    asks_no_more(task.id, task.flow)
  end
  -- a driver that an older version has started did count
  if task.pool ~= DRIVERS or call('HDEL', key('task', task.id), 'uncounted') == 0 then
    flight[tenant] = (flight[tenant] or 0) - 1
  end
  if left then left[#left + 1] = task.id else left_by_pool[task.pool] = {task.id} end
  if task.parent then
    call('HINCRBY', key('trace', task.trace), 'running_children', -1)
    release(held_flows(task.trace))
  end
  if task.reserved then
    call('HINCRBY', key('trace', task.trace), 'reserved', 0 - task.reserved)
    -- what was set aside before tenants had money of their own is not in it
    if call('HINCRBY', key('money', tenant), 'reserved', 0 - task.reserved) < 0 then
      call('HSET', key('money', tenant), 'reserved', 0)
    end
    call('HDEL', key('task', task.id), 'reserved')
  end
end

-- Before anything is started again: what left must not take a new lease with it, and its room is for others.
local function settle_flight()
  for pool, ids in pairs(left_by_pool) do call_many('ZREM', key('leases', pool), ids) end
  local changes = flight
  flight, left_by_pool = {}, {}
  for tenant, change in pairs(changes) do
    if change ~= 0 and call('HINCRBY', cell('flight'), tenant, change) <= 0 then call('HDEL', cell('flight'), tenant) end
    if change < 0 then release(held_lanes(tenant)) end
  end
end

local function settle_queued()
  for tenant, change in pairs(queued) do
    if change ~= 0 and call('HINCRBY', cell('queued'), tenant, change) <= 0 then call('HDEL', cell('queued'), tenant) end
  end
  queued = {}
end

-- What has changed of a pool's figures, as fields and values; lanes that have left the line have none.
local function changes_of(pool)
  local set, gone = {}, {}
  if pool.vtime ~= pool.stored_vtime or pool.ready ~= pool.stored_ready then
    set = {'vtime', pool.vtime, 'ready', pool.ready}
  end
  for name, lane in pairs(pool.lanes) do
    if lane.vtime == 0 and lane.stored_vtime ~= 0 then
      gone[#gone + 1] = name
    elseif lane.vtime ~= lane.stored_vtime then
      set[#set + 1] = name
      set[#set + 1] = lane.vtime
    end
  end
  return set, gone
end

local function settle_line()
  settle_flight()
  settle_queued()
  for name, pool in pairs(pools) do
    local set, gone = changes_of(pool)
    call_many('HSET', key('pool', name), set)
    call_many('HDEL', key('pool', name), gone)
  end
end

local function settle() settle_line() end
