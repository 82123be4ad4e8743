-- Reap what is over, then start up to `slots` tasks: each time of the lane, and in it of the flow, that is furthest behind.
-- Returns {ms until the next lease, deadline or timer ends (-1: none), now, claims}. The claims are one flat list, 11 values
-- each (`hand_over`): the server looks into each table of an answer seven times before it sends it.

-- These bound the time for which one script holds the server: starts; turns of lanes, and looks at flows (among them those
-- at ids of ended tasks). MAX_STALE: looks at such ids in one lane; then the lane waits for the next claim, so that one
-- tenant's ended tasks do not delay another's start.
local MAX_STARTS, MAX_VISITS, MAX_STALE = 200, 1000, 100
local START = {'trace', 'state', 'attempt', 'expires', 'accepted', 'started', 'lost', 'retries', 'envelope',
               'checkpoint', 'session', 'parent', 'flow', 'worker'}
-- After every name.
local LAST = '\255'

-- On a full server nothing starts; what is over ends all the same. This comes before the first write.
local FULL_LOOKS_MS = 1000
local memory_is_full, wake_ms = is_full(), nil
if memory_is_full then
  use_reserve()
  wake_ms = trim(TRIMMED_AT_ONCE) > 0 and 10 or FULL_LOOKS_MS
end

look()
local LEASE_ENDS = lease_end()
local slots = math.min(A.slots, MAX_STARTS)
local claims, started, leases, visits, pool = {}, {}, {}, 0, pool_of(A.pool)
local has_passed = false

local function hand_over(task)
  local earlier = task.session and not task.checkpoint and call('HGET', key('session', task.session), 'checkpoint')
  local n = #claims
  claims[n + 1], claims[n + 2], claims[n + 3], claims[n + 4] = task.id, task.trace, task.attempt, task.envelope
  claims[n + 5], claims[n + 6], claims[n + 7] = task.accepted, task.expires, task.lost or 0
  claims[n + 8], claims[n + 9] = task.retries or 0, task.started or now
  claims[n + 10], claims[n + 11] = task.checkpoint or false, earlier or false
end

local function start(task)
  task.attempt = task.attempt + 1
  call('HSET', task.key, 'state', 'running', 'attempt', text_of(task.attempt), 'worker', A.worker,
       'started', task.started or NOW)
  leases[#leases + 1] = LEASE_ENDS
  leases[#leases + 1] = task.id
  started[#started + 1] = task.id
  local tenant = tenant_of(task.flow)
  queued[tenant] = (queued[tenant] or 0) - 1
  enter_flight(task, A.pool)
  tell(task, 'running', '', A.worker)
  hand_over(task)
end

-- What tenants get: `weight cap`, the cap empty for none.
local tenants = {}

local function tenant_named(name)
  if not tenants[name] then
    local weight, cap = string.match(call('HGET', cell('tenants'), name) or '1', '^([%d.]+) ?([^ ]*)')
    weight = weight or 1  -- what is no weight
    tenants[name] = {name = name, stride = math.floor(A.lane_stride / math.max(number(weight), 0.001)), cap = tonumber(cap)}
  end
  return tenants[name]
end

local function full(tenant)
  if not tenant.cap then return false end
  if A.pool == DRIVERS then return tenant.cap <= 0 end
  tenant.running = tenant.running or number(call('HGET', cell('flight'), tenant.name))
  return tenant.running + (flight[tenant.name] or 0) >= tenant.cap
end

local function crowded(task)
  if not task.parent then return false end
  return number(call('HGET', key('trace', task.trace), 'running_children')) >= A.children_per_trace
end

-- A line (a pool's lanes, a lane's flows) is read piece by piece; whose virtual time has changed is written at the end.

local function open(name, size) return {name = name, size = size, first = 1, last = 0, moved = {}} end

-- By virtual time, then by name: the order in which Redis sorts them.
local function later(a, b)
  if a.due ~= b.due then return a.due > b.due end
  return a.name > b.name
end

local function save(line)
  local scores = {}
  for name, due in pairs(line.moved) do
    scores[#scores + 1] = due
    scores[#scores + 1] = name
  end
  call_many('ZADD', line.name, scores)
  line.moved = {}
end

-- Those that come next. None beyond them is due before `horizon`.
local function read(line)
  save(line)
  local found = call('ZRANGE', line.name, 0, line.size - 1, 'WITHSCORES')
  local known = line.known or {}
  line.first, line.last, line.count, line.known = 1, #found / 2, #found / 2, known
  for i = 1, line.last do
    local name = found[2 * i - 1]
    line[i] = known[name] or {name = name}
    line[i].due, known[name] = tonumber(found[2 * i]), line[i]
  end
  line.whole = line.count < line.size
  local last = line.whole and {name = LAST, due = math.huge} or line[line.last]
  line.horizon = {name = last.name, due = last.due}
  line.size = line.size * 2
end

local function head(line)
  local first = line.first <= line.last and line[line.first]
  if line.whole and not first then return nil end
  if not first or later(first, line.horizon) then read(line) end
  return line.first <= line.last and line[line.first] or nil
end

-- It has had its turn. From the back: mostly it belongs there.
local function move_back(line, one, stride)
  line.first = line.first + 1
  one.due = one.due + stride
  line.moved[one.name] = one.due
  local at = line.last
  while at >= line.first and later(line[at], one) do
    line[at + 1] = line[at]
    at = at - 1
  end
  line[at + 1] = one
  line.last = line.last + 1
end

local function drop(line, one)
  line.first = line.first + 1
  line.moved[one.name] = nil
  call('ZREM', line.name, one.name)
end

-- The first task of a lane that may start, and its flow. An emptied flow stays until its turn comes: who submits one by
-- one gains nothing by it. Ids of tasks that were ended while they waited are left behind in the lists.
-- No task and no flow: nothing is left, or (`lane.is_passed`) there was no time to find it.
local function next_task(lane)
  local times, stale = lane_of(pool, lane.name), 0
  while visits < MAX_VISITS do
    if stale >= MAX_STALE then
      lane.is_passed, has_passed = true, true
      return nil
    end
    local flow = head(lane.flows)
    if not flow then return nil end
    visits = visits + 1
    local id = call('LPOP', flow.name)
    local task = id and load_task(id, START)
    if not id then
      drop(lane.flows, flow)
      times.vtime = math.max(times.vtime, flow.due)
    elseif not task or task.state ~= 'pending' or reason_above(task) then
      stale = stale + 1  -- it has ended, or whoever stops the tree above it will end it
    else
      if not crowded(task) then return task, flow, times end
      call('LPUSH', flow.name, id)
      drop(lane.flows, flow)
      hold(held_flows(task.trace), flow.name, flow.due, times)
    end
  end
end

-- Tenants who have enough of this worker: what it takes now is for others.
local but_of = {}
for _, name in ipairs(A.but_of or {}) do but_of[name] = true end

-- One turn of a lane.
local function visit(lanes, lane)
  lane.tenant = lane.tenant or tenant_named(tenant_of_lane(lane.name))
  local tenant = lane.tenant
  visits = visits + 1
  if but_of[tenant.name] then
    lane.is_passed = true
    return
  end
  if full(tenant) then
    drop(lanes, lane)
    return hold(held_lanes(tenant.name), lane.name, lane.due, pool)
  end
  lane.flows = lane.flows or open(lane.name, math.ceil(slots / lanes.count))
  local task, flow, times = next_task(lane)
  if task then
    start(task)
    pool.vtime, times.vtime = math.max(pool.vtime, lane.due), math.max(times.vtime, flow.due)
    move_back(lanes, lane, tenant.stride)
    flow.stride = flow.stride or A.strides[select(4, place_of(flow.name))]
    move_back(lane.flows, flow, flow.stride)
  elseif lane.is_passed then
    lanes.first = lanes.first + 1
  elseif visits < MAX_VISITS then
    drop(lanes, lane)
    pool.vtime = math.max(pool.vtime, lane.due)
    forget(lane_of(pool, lane.name))
  end
end

-- It is always certain who is next: the order is that of single claims.
local function take()
  local lanes = open(key('lanes', A.pool), slots)
  while #started < slots and visits < MAX_VISITS do
    local lane = head(lanes)
    if not lane then break end
    if lane.is_passed then lanes.first = lanes.first + 1 else visit(lanes, lane) end
  end
  for _, lane in pairs(lanes.known) do
    if lane.flows then save(lane.flows) end
  end
  save(lanes)
  call_many('ZADD', key('leases', A.pool), leases)
  if #started > 0 then next_in[key('leases', A.pool)] = nil end
  pool.ready = pool.ready - #started
end

-- The answer of this very call was lost: what it has started is still the worker's.
local function hand_over_again(ids)
  for _, id in ipairs(ids) do
    local task = load_task(id, START)
    if task and task.state == 'running' and task.worker == A.worker then
      hand_over(task)
      leases[#leases + 1] = LEASE_ENDS
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
  if not memory_is_full then take() end
  -- One token wakes one worker; who leaves something behind wakes the next. Who found less than it could take has left
  -- only what a cap holds back.
  if (#started == slots or visits >= MAX_VISITS or has_passed) and pool.ready > 0 then ring(A.pool) end
  if #started > 0 then remember(started) end
  spend(#started / 2)  -- a start costs half as much as an end
  do_chores()
end
-- Who has work in every slot does not come back for the chores.
local next_ms = next_end({A.pool}, #started < slots and A.worker, 0)
if memory_is_full and (next_ms < 0 or next_ms > wake_ms) then next_ms = wake_ms end
return {next_ms, now, claims}
