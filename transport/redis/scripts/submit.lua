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

local deadlines, roots = {}, {}

local function accept(request, expires)
  local name, record = key('task', request.task), request.more
  if request.parent then
    record[#record + 1], record[#record + 2] = 'parent', request.parent
    call('SADD', key('children', request.parent), request.task)
  end
  if call('HSETNX', key('trace', request.trace), 'root', request.task) == 1 then
    record[#record + 1], record[#record + 2] = 'root', 1
    if request.cap then call('HSET', key('trace', request.trace), 'cap', request.cap) end
    roots[#roots + 1] = request.task
  end
  call('HSET', name, 'trace', request.trace, 'pool', request.pool, 'flow', request.flow, 'state', 'pending',
       'attempt', 0, 'accepted', now, 'expires', expires, 'agent', request.agent, 'envelope', request.envelope,
       unpack(record))
  call('RPUSH', key('tasks', request.trace), request.task)
  if request.once then
    call('SET', key('once', request.once), request.task .. request.trace, 'PX', A.idempotency_ms)
  end
  deadlines[#deadlines + 1] = expires
  deadlines[#deadlines + 1] = request.task
  enqueue('RPUSH', {id = request.task, pool = request.pool, flow = request.flow})
end

local handles, rung = {1}, {}
for i, request in ipairs(A.requests) do
  local first = first_of(request)
  if first then
    handles[i + 1] = {string.sub(first, 1, 36), string.sub(first, 37)}
  else
    accept(request, expiry[i])
    rung[request.pool] = true
    handles[i + 1] = {request.task, request.trace}
  end
end
for pool in pairs(rung) do
  call('SADD', cell('pools'), pool)
  ring(pool)
end
call_many('ZADD', cell('deadlines'), deadlines)
call_many('LPUSH', cell('roots'), roots)
if #roots > 0 then call('LTRIM', cell('roots'), 0, 9999) end
return handles
