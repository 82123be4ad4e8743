-- Accept all requests or none. Returns {0, index, why, what} of one that is refused, else {1, task, trace, is it new (0, 1),
-- task, ...}: the tasks that stand for the requests, which are earlier ones where an idempotency key was seen before.

local SUBMITTER = {'trace', 'state', 'attempt', 'worker'}

-- The task, its trace and its work (see `work_of` in admission.py) that stand for a request. A key whose task is no longer
-- known (it outlived it, or a failover forgot the task) stands for nothing.
local function first_of(request)
  if call('EXISTS', key('task', request.task)) == 1 then return request.task .. request.trace .. request.work end
  local first = request.once and call('GET', key('once', request.once))
  return first and call('EXISTS', key('task', string.sub(first, 1, 36))) == 1 and first
end

-- When the parent must have ended, and how many tasks stand above it; nothing where it takes no children.
local PARENT = {'trace', 'state', 'attempt', 'expires', 'cancel', 'depth'}

local function parent_of(request, accepted, depths)
  local inside = accepted[request.parent]
  if inside then return inside, depths[request.parent] or 0 end
  local parent = load_task(request.parent, PARENT)
  if parent and LIVE[parent.state] and not parent.cancel then return parent.expires, tonumber(parent.depth or 0) or 0 end
end

-- A session has one task: the one that opened it, or the last that went on with it. Of another tenant's nobody learns
-- that it is there.
local function session_trouble(session, tenant)
  local kept = call('HMGET', key('session', session), 'holder', 'checkpoint', 'tenant')
  local holder = kept[1] or session
  local task = call('HMGET', key('task', holder), 'state', 'flow')
  local owner = kept[3] or (task[2] and tenant_of(task[2]))
  if owner ~= tenant then return 'session' end
  if LIVE[task[1]] or task[1] == 'closing' then return 'busy', holder end
  if not kept[2] then return 'session' end
end

-- When the batch that a shard belongs to must have ended, and so must the shard; 0 where it is not known in this cell.
local batches = {}

local function batch_expiry(batch)
  batches[batch] = batches[batch] or tonumber(call('HGET', key('task', batch), 'expires') or 0) or 0
  return batches[batch]
end

-- A key stands for its task as long as whoever has submitted it may go on after a restart, and look for it.
local function key_life(request, expires, limit)
  -- of a batch that is not known in this cell: as long as records are kept
  local unknown_ms = request.batch and not limit and A.retention_ms or 0
  return math.max(A.idempotency_ms, expires - now, (limit or 0) - now, unknown_ms)
end

-- How much there may be of a tenant's tasks in line, and of a trace's tasks; how much there will be. A submission that
-- comes in parts is judged whole where the tenant or the trace is met first: A.later counts what is still to come, and
-- what stands in A.admitted was judged before.
local most, counts = {}, {}

local function most_of(tenant)
  if not most[tenant] then
    local given = call('HGET', cell('tenants'), tenant) or ''
    local in_line, in_tree = string.match(given, '^%S+ [^ ]* ([^ ]*) ([^ ]*)$')
    most[tenant] = {queued = tonumber(in_line) or A.max_queued, tree = tonumber(in_tree) or A.max_tree}
  end
  return most[tenant]
end

local function is_too_much(name, known, limit)
  if A.admitted and A.admitted[name] then return false end
  counts[name] = (counts[name] or known() + (A.later and A.later[name] or 0)) + 1
  return counts[name] > limit
end

local function bound_trouble(request)
  local tenant = tenant_of(request.flow)
  local limits = most_of(tenant)
  local function in_line() return number(call('HGET', cell('queued'), tenant)) end
  local function in_tree() return call('LLEN', key('tasks', request.trace)) end
  if is_too_much('tree:' .. request.trace, in_tree, limits.tree) then return 'tree', text_of(limits.tree) end
  if is_too_much('line:' .. tenant, in_line, limits.queued) then return 'queued', text_of(limits.queued) end
end

local coming, taken, expiry, expires_of, depth_of, key_lives = {}, {}, {}, {}, {}, {}

local function trouble(request, at)
  local expires = now + request.deadline_ms
  local first = coming[request.task] or (request.once and coming[request.once]) or first_of(request)
  if first then
    local work = string.sub(first, 69)  -- none of a key that an older version has made
    if work ~= '' and work ~= request.work then return 'key', string.sub(first, 1, 36) end
  else
    coming[request.task] = request.task .. request.trace .. request.work
    if request.once then coming[request.once] = coming[request.task] end
    if math.abs(now - request.created) > A.replay_window_ms then return 'created', tostring(now) end
    local limit
    if request.parent then
      local above
      limit, above = parent_of(request, expires_of, depth_of)
      if not limit then return 'parent' end
      if above >= A.max_depth then return 'depth', text_of(A.max_depth) end
      depth_of[request.task] = above + 1
      expires = math.min(expires, limit)
    elseif request.batch and batch_expiry(request.batch) > 0 then
      limit = batch_expiry(request.batch)
      expires = math.min(expires, limit)
    end
    if request.session then
      local why, what = session_trouble(request.session, tenant_of(request.flow))
      if taken[request.session] then why, what = 'busy', taken[request.session] end
      if why then return why, what end
      taken[request.session] = request.task
    end
    local why, what = bound_trouble(request)
    if why then return why, what end
    expires_of[request.task] = expires
    if request.once then key_lives[at] = text_of(key_life(request, expires, limit)) end
  end
  expiry[at] = expires
end

local deadlines, roots = {}, {}

-- Lists by the key that they go to, each written in one step: a command for each task would cost more than its record.
local function lists() return {order = {}, by_name = {}} end

local function add(to, name, value)
  if not to.by_name[name] then
    to.by_name[name] = {}
    to.order[#to.order + 1] = name
  end
  local list = to.by_name[name]
  list[#list + 1] = value
end

local in_line, of_traces, of_parents, of_tenants = lists(), lists(), lists(), lists()
-- Roots that have not ended: `shards` of batches, and `live` ones that people began.
local of_live = lists()

local function list_of(root) return root.shard and 'shards' or 'live' end

-- A root is listed for as long as its record may be kept.
local LISTED_MS = A.retention_ms + A.max_deadline_ms
-- Traces that this script has seen; whether they began with it.
local traces = {}

-- A trace's first task is its root. A reader that finds another entry first knows that older ones are gone.
local function begin(request)
  if traces[request.trace] then return false end
  traces[request.trace] = 'known'
  local name = key('trace', request.trace)
  if call('HEXISTS', name, 'root') == 1 then return false end
  traces[request.trace] = 'new'
  local first = tell({id = request.task, trace = request.trace, attempt = 0}, 'pending', '', '')
  local fields = {'root', request.task, 'first', first}
  if request.cap then fields[5], fields[6] = 'cap', request.cap end
  call('HSET', name, unpack(fields))
  roots[#roots + 1] = request.task
  local tenant = tenant_of(request.flow)
  add(of_tenants, tenant, request.task)
  add(of_live, list_of(request), request.task)
  add(of_live, list_of(request) .. ':' .. tenant, request.task)
  return true
end

local function accept(request, expires_ms, key_life_ms)
  local record, expires = request.more, text_of(expires_ms)
  local function also(field, value) record[#record + 1], record[#record + 2] = field, value end
  if request.parent then
    also('parent', request.parent)
    also('depth', text_of(depth_of[request.task]))
    add(of_parents, request.parent, request.task)
  end
  if request.session then
    also('session', request.session)
    call('HSET', key('session', request.session), 'holder', request.task)
    call('PERSIST', key('session', request.session))
  end
  if begin(request) then also('root', list_of(request)) end
  call('HSET', key('task', request.task), 'trace', request.trace, 'pool', request.pool, 'flow', request.flow,
       'state', 'pending', 'attempt', '0', 'accepted', NOW, 'expires', expires, 'agent', request.agent,
       'envelope', request.envelope, unpack(record))
  if request.once then
    call('SET', key('once', request.once), request.task .. request.trace .. request.work, 'PX', key_life_ms)
  end
  add(of_traces, request.trace, request.task)
  add(in_line, request.pool .. ':' .. request.flow, request.task)
  deadlines[#deadlines + 1] = expires
  deadlines[#deadlines + 1] = request.task
end

-- With the first live task of a trace that had ended its term is over.
local function enter_trace(trace, count)
  if call('HINCRBY', key('trace', trace), 'live', count) > count or traces[trace] == 'new' then return end
  for _, kept in ipairs({'trace', 'tasks', 'events'}) do call('PERSIST', key(kept, trace)) end
  call('ZREM', cell('ended'), trace)
end

local function list_now(name, ids)
  local rows = {}
  for _, id in ipairs(ids) do rows[#rows + 1], rows[#rows + 2] = NOW, id end
  call_many('ZADD', name, rows)
end

local function list_roots(name, ids)
  list_now(name, ids)
  local old = call('ZRANGEBYSCORE', name, '-inf', text_of(now - LISTED_MS), 'LIMIT', 0, 200)
  call_many('ZREM', name, old)
  call('PEXPIRE', name, text_of(LISTED_MS))
end

-- First what a task cannot do without: one that stands in line and has a deadline will end.
local function write_lists()
  call_many('ZADD', cell('deadlines'), deadlines)
  local rung = {}
  for _, name in ipairs(in_line.order) do
    local pool, flow = string.match(name, '^([^:]+):(.*)$')
    enqueue_all('RPUSH', pool, flow, in_line.by_name[name])
    rung[pool] = true
  end
  for pool in pairs(rung) do
    call('SADD', cell('pools'), pool)
    ring(pool)
  end
  for parent, ids in pairs(of_parents.by_name) do
    call_many('SADD', key('children', parent), ids)
    call('HSET', key('task', parent), 'has_children', 1)
  end
  for trace, ids in pairs(of_traces.by_name) do
    call_many('RPUSH', key('tasks', trace), ids)
    enter_trace(trace, #ids)
  end
  if #roots > 0 then list_roots(cell('index'), roots) end
  for name, ids in pairs(of_live.by_name) do list_now(cell(name), ids) end
  for tenant, ids in pairs(of_tenants.by_name) do list_roots(key('index', tenant), ids) end
end

local function accept_each(handles)
  for i, request in ipairs(A.requests) do
    local first = first_of(request)
    if first then
      handles[3 * i - 1], handles[3 * i], handles[3 * i + 1] = string.sub(first, 1, 36), string.sub(first, 37, 68), 0
    else
      accept(request, expiry[i], key_lives[i])
      handles[3 * i - 1], handles[3 * i], handles[3 * i + 1] = request.task, request.trace, 1
    end
  end
end

-- A key that somebody has spoilt stops the script; those that are on record by then stand in line all the same.
local function accept_all()
  local handles = {1}
  local accepted, trouble_accepting = pcall(accept_each, handles)
  local written, trouble_writing = pcall(write_lists)
  if accepted and written then return handles end
  settle()
  error(trouble_accepting or trouble_writing, 0)
end

-- Children are a write of their parent's: a worker whose lease is gone starts none.
local function submitter_is_stale()
  if not A.under then return false end
  local task = load_task(A.under[1], SUBMITTER)
  return not (task and task.state == 'running' and task.attempt == A.under[2] and task.worker == A.under[3])
end

local function all_are_known()
  for _, request in ipairs(A.requests) do
    if not first_of(request) then return false end
  end
  return true
end

local before = recall()
if before then return before end
local full = is_full()
if full then use_reserve() end
if submitter_is_stale() then
  count('fenced_writes')
  return {0, -1, 'fenced'}
end
if full and not all_are_known() then
  trim(TRIMMED_AT_ONCE)
  return {0, -1, 'full'}
end
for i, request in ipairs(A.requests) do
  local why, what = trouble(request, i)
  if why then return {0, i - 1, why, what or ''} end
end
return remember(accept_all())
