-- Accept all requests or none. Returns {0, index, why, what} of one that is refused, else {1, task, trace, task, ...}: the
-- tasks that stand for the requests, which are earlier ones where an idempotency key was seen before.

local SUBMITTER = {'trace', 'state', 'attempt', 'worker'}

-- The task, its trace and its work (see `work_of` in admission.py) that stand for a request. A key whose task is no longer
-- known (it outlived it, or a failover forgot the task) stands for nothing.
local function first_of(request)
  if call('EXISTS', key('task', request.task)) == 1 then return request.task .. request.trace .. request.work end
  local first = request.once and call('GET', key('once', request.once))
  return first and call('EXISTS', key('task', string.sub(first, 1, 36))) == 1 and first
end

local function parent_expiry(request, accepted)
  local inside = accepted[request.parent]
  if inside then return inside end
  local parent = load_task(request.parent)
  return parent and LIVE[parent.state] and not parent.cancel and parent.expires
end

-- A session has one task: the one that opened it, or the last that went on with it. Of another tenant's nobody learns
-- that it is there.
local function session_trouble(session, tenant)
  local kept = call('HMGET', key('session', session), 'holder', 'checkpoint', 'tenant')
  local holder = kept[1] or session
  local task = call('HMGET', key('task', holder), 'state', 'flow')
  local owner = kept[3] or (task[2] and tenant_of(task[2]))
  if owner ~= tenant then return 'session' end
  if LIVE[task[1]] then return 'busy', holder end
  if not kept[2] then return 'session' end
end

-- When the batch that a shard belongs to must have ended; 0 where it is not known in this cell.
local batches = {}

local function batch_expiry(batch)
  batches[batch] = batches[batch] or tonumber(call('HGET', key('task', batch), 'expires') or 0) or 0
  return batches[batch]
end

-- A key stands for its task as long as whoever has submitted it may go on after a restart, and look for it.
local function key_life(request, expires, limit)
  local driver = limit or (request.batch and batch_expiry(request.batch)) or 0
  return math.max(A.idempotency_ms, expires - now, driver - now)
end

local coming, taken, expiry, expires_of, key_lives = {}, {}, {}, {}, {}

local function trouble(request, at)
  local expires = now + request.deadline_ms
  local first = coming[request.task] or (request.once and coming[request.once]) or first_of(request)
  if first then
    if string.sub(first, 69) ~= request.work then return 'key', string.sub(first, 1, 36) end
  else
    coming[request.task] = request.task .. request.trace .. request.work
    if request.once then coming[request.once] = coming[request.task] end
    if math.abs(now - request.created) > A.replay_window_ms then return 'created', tostring(now) end
    local limit
    if request.parent then
      limit = parent_expiry(request, expires_of)
      if not limit then return 'parent' end
      expires = math.min(expires, limit)
    end
    if request.session then
      local why, what = session_trouble(request.session, tenant_of(request.flow))
      if taken[request.session] then why, what = 'busy', taken[request.session] end
      if why then return why, what end
      taken[request.session] = request.task
    end
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
-- A root is listed for as long as its record may be kept.
local LISTED_MS = A.retention_ms + A.max_deadline_ms
-- Traces that this script has seen; whether they began with it.
local traces = {}

-- A trace's first task is its root. A reader that finds another entry first knows that older ones are gone.
local function begin(request)
  if traces[request.trace] then return false end
  traces[request.trace] = true
  local name = key('trace', request.trace)
  local known = call('HMGET', name, 'root', 'term_set')
  if known[2] then
    -- all had ended, and it goes on
    call('HDEL', name, 'term_set')
    for _, kept in ipairs({'trace', 'tasks', 'events'}) do call('PERSIST', key(kept, request.trace)) end
  end
  if known[1] then return false end
  local first = tell({id = request.task, trace = request.trace, attempt = 0}, 'pending', '', '')
  local fields = {'root', request.task, 'first', first}
  if request.cap then fields[5], fields[6] = 'cap', request.cap end
  call('HSET', name, unpack(fields))
  roots[#roots + 1] = request.task
  add(of_tenants, tenant_of(request.flow), request.task)
  return true
end

local function accept(request, expires, key_life_ms)
  local record = request.more
  expires = text_of(expires)
  local function also(field, value) record[#record + 1], record[#record + 2] = field, value end
  if request.parent then
    also('parent', request.parent)
    add(of_parents, request.parent, request.task)
  end
  if request.session then
    also('session', request.session)
    call('HSET', key('session', request.session), 'holder', request.task)
    call('PERSIST', key('session', request.session))
  end
  if begin(request) then also('root', 1) end
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

local function list_roots(name, ids)
  local rows = {}
  for _, id in ipairs(ids) do rows[#rows + 1], rows[#rows + 2] = NOW, id end
  call_many('ZADD', name, rows)
  call('ZREMRANGEBYSCORE', name, '-inf', text_of(now - LISTED_MS))
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
  for trace, ids in pairs(of_traces.by_name) do call_many('RPUSH', key('tasks', trace), ids) end
  call_many('LPUSH', cell('roots'), roots)
  if #roots > 0 then
    call('LTRIM', cell('roots'), 0, 9999)
    list_roots(cell('index'), roots)
  end
  for tenant, ids in pairs(of_tenants.by_name) do list_roots(key('index', tenant), ids) end
end

local function accept_each(handles)
  for i, request in ipairs(A.requests) do
    local first = first_of(request)
    if first then
      handles[2 * i], handles[2 * i + 1] = string.sub(first, 1, 36), string.sub(first, 37, 68)
    else
      accept(request, expiry[i], key_lives[i])
      handles[2 * i], handles[2 * i + 1] = request.task, request.trace
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

if submitter_is_stale() then
  count('fenced_writes')
  return {0, -1, 'fenced'}
end
for i, request in ipairs(A.requests) do
  local why, what = trouble(request, i)
  if why then return {0, i - 1, why, what or ''} end
end
return accept_all()
