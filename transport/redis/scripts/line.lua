-- Second part: who is next. Ready tasks stand in the lists of their flows, flows in one sorted set per pool, by virtual
-- time; flows that a cap holds back stand aside. docs/protocol.md has the algorithm.

-- Figures of pools, running tasks of tenants and children of traces: changed here, written once, by `settle_line`.
local pools, flight, left_by_pool = {}, {}, {}

local function pool_of(name)
  if not pools[name] then
    local found = call('HMGET', key('pool', name), 'vtime', 'ready')
    local vtime, ready = tonumber(found[1] or 0), tonumber(found[2] or 0)
    pools[name] = {vtime = vtime, ready = ready, stored_vtime = vtime, stored_ready = ready}
  end
  return pools[name]
end

local function tenant_of(flow) return string.match(flow, ':([^:]+):[^:]+$') end

-- One place in line: at the flow's tail, or at its head for a task that has waited before. Each new flow comes a
-- little later than the one before, so that flows of a single task start in the order in which they came.
-- A flow goes by the whole name of its list: longer than 64 bytes, so that Redis keeps the flows in a skip list. In its
-- compact form for short members each move among 100 flows costs five times as much.
local function enqueue(push, task)
  local pool, flow, flows = pool_of(task.pool), key('flow', task.pool .. ':' .. task.flow), key('flows', task.pool)
  call(push, flow, task.id)
  pool.ready = pool.ready + 1
  if call('ZADD', flows, 'NX', pool.vtime + A.tick, flow) == 0 then return end
  -- A flow that stands aside comes back with the turn that it had.
  local caps = {'tenant:' .. tenant_of(task.flow), 'trace:' .. string.match(task.flow, '[^:]+$')}
  for i, holding in ipairs(call('SMISMEMBER', cell('holding'), caps[1], caps[2])) do
    local due = holding == 1 and call('ZSCORE', key('held', caps[i] .. ':' .. task.pool), flow)
    if due then
      call('ZREM', key('held', caps[i] .. ':' .. task.pool), flow)
      return call('ZADD', flows, due, flow)
    end
  end
  pool.vtime = pool.vtime + A.tick
end

-- A held flow stands aside with its virtual time: it has not had its turn. `holding` names what has any.
local function hold(kind, id, pool, flow, due)
  call('SADD', cell('holding'), kind .. ':' .. id)
  call('ZADD', key('held', kind .. ':' .. id .. ':' .. pool), 'LT', due, flow)
end

-- How many flows this script has put back in line.
local put_back = 0

-- Up to `room` held flows of one pool; one that came back by itself, or has nothing left, takes no room.
local function release_in(pool, held, room)
  while room > 0 do
    local first = call('ZPOPMIN', held)
    if not first[1] then return false end
    -- an emptied one goes back, too: it stays until its turn comes
    call('ZADD', key('flows', pool), 'NX', first[2], first[1])
    put_back = put_back + 1
    ring(pool)
    if call('EXISTS', first[1]) == 1 then room = room - 1 end
  end
  return call('EXISTS', held) == 1
end

-- There is room again under a cap. It may be that only one pool has a free slot, so that each gets its flows back; a
-- flow that finds the room taken stands aside again.
local function release(kind, id, room)
  local name, left = kind .. ':' .. id, false
  if room <= 0 or call('SISMEMBER', cell('holding'), name) == 0 then return end
  for _, pool in ipairs(call('SMEMBERS', cell('pools'))) do
    left = release_in(pool, key('held', name .. ':' .. pool), room) or left
  end
  if not left then call('SREM', cell('holding'), name) end
end

-- A start counts for its tenant, and a child's for its trace.
local function enter_flight(task)
  local tenant = tenant_of(task.flow)
  flight[tenant] = (flight[tenant] or 0) + 1
  if task.parent then call('HINCRBY', key('trace', task.trace), 'running_children', 1) end
end

-- The task no longer runs: its lease ends, and what it held is free for others.
local function leave_flight(task)
  local tenant, left = tenant_of(task.flow), left_by_pool[task.pool]
  flight[tenant] = (flight[tenant] or 0) - 1
  if left then left[#left + 1] = task.id else left_by_pool[task.pool] = {task.id} end
  if task.parent then
    call('HINCRBY', key('trace', task.trace), 'running_children', -1)
    release('trace', task.trace, 1)
  end
  if task.reserved then
    call('HINCRBY', key('trace', task.trace), 'reserved', 0 - task.reserved)
    call('HDEL', key('task', task.id), 'reserved')
  end
end

-- Before anything is started again: what left must not take a new lease with it, and its room is for others.
local function settle_flight()
  for pool, ids in pairs(left_by_pool) do call_many('ZREM', key('leases', pool), ids) end
  local changes = flight
  flight, left_by_pool = {}, {}
  for tenant, change in pairs(changes) do
    if change ~= 0 and call('HINCRBY', cell('flight'), tenant, change) == 0 then call('HDEL', cell('flight'), tenant) end
    release('tenant', tenant, 0 - change)
  end
end

local function settle_line()
  settle_flight()
  for name, pool in pairs(pools) do
    if pool.vtime ~= pool.stored_vtime or pool.ready ~= pool.stored_ready then
      call('HSET', key('pool', name), 'vtime', pool.vtime, 'ready', pool.ready)
    end
  end
end
