-- Accept all requests or none. Returns {0, index} of one that is refused, else {1, {task, trace}...}: the tasks that
-- stand for the requests, which are earlier ones where an idempotency key was seen before.

local function first_of(request)
  if call('EXISTS', key('task', request.task)) == 1 then return request.task .. request.trace end
  return request.once and call('GET', key('once', request.once))
end

local function parent_expiry(request, accepted)
  local inside = accepted[request.parent]
  if inside then return inside end
  local parent = load_task(request.parent)
  return parent and LIVE[parent.state] and not parent.cancel and parent.expires
end

local expiry, expires_of = {}, {}
for i, request in ipairs(A.requests) do
  local expires = now + request.deadline_ms
  if request.parent and not first_of(request) then
    local limit = parent_expiry(request, expires_of)
    if not limit then return {0, i - 1} end
    expires = math.min(expires, limit)
  end
  expiry[i] = expires
  expires_of[request.task] = expires
end

local function accept(request, expires)
  local name = key('task', request.task)
  local task = {id = request.task, pool = request.pool, flow = request.flow}
  call('HSET', name, 'trace', request.trace, 'pool', request.pool, 'flow', request.flow, 'state', 'pending',
       'attempt', 0, 'accepted', now, 'expires', expires, 'agent', request.agent, 'envelope', request.envelope)
  if #request.more > 0 then call('HSET', name, unpack(request.more)) end
  if request.parent then call('HSET', name, 'parent', request.parent) end
  if call('HSETNX', key('trace', request.trace), 'root', request.task) == 1 then
    call('HSET', name, 'root', 1)
    if request.cap then call('HSET', key('trace', request.trace), 'cap', request.cap) end
    call('LPUSH', cell('roots'), request.task)
  end
  call('RPUSH', key('tasks', request.trace), request.task)
  if request.parent then call('SADD', key('children', request.parent), request.task) end
  if request.once then
    call('SET', key('once', request.once), request.task .. request.trace, 'PX', A.idempotency_ms)
  end
  call('ZADD', cell('deadlines'), expires, request.task)
  enqueue('RPUSH', task)
end

local handles, pools = {1}, {}
for i, request in ipairs(A.requests) do
  local first = first_of(request)
  if first then
    handles[i + 1] = {string.sub(first, 1, 36), string.sub(first, 37)}
  else
    accept(request, expiry[i])
    pools[request.pool] = true
    handles[i + 1] = {request.task, request.trace}
  end
end
for pool in pairs(pools) do
  call('SADD', cell('pools'), pool)
  ring(pool)
end
call('LTRIM', cell('roots'), 0, 9999)
return handles
