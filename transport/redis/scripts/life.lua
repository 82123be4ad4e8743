-- Third part: the moves of a task's life, each for one that was loaded whole, or as far as its script says. The table
-- of states is envelope/lifecycle.py; a script looks at the state before it moves a task.

local ended, over = {}, {}
-- Roots that this script has ended, by the list of live ones that they stood in.
local ended_roots = {}

-- What the queue itself says when it ends a task; a test compares the codes with envelope/errors.py.
local ENDINGS = {
  cancelled = {status = 'cancelled', code = 'cancelled', retryable = true, turn = 'caller', hint = ''},
  expired = {status = 'expired', code = 'deadline', retryable = true, turn = 'caller',
             hint = 'give it a longer deadline, or look whether its pool has workers'},
  poison = {status = 'error', code = 'poison', retryable = false, turn = 'operator',
            hint = 'look into the logs of the workers that it took down'},
}
local TOO_LATE = 'the task did not end before its deadline'

local function session_of(task) return task.session or task.id end

-- Back in line, from running or from waiting: at the head of its flow, for it has waited before.
local function requeue(task, reason)
  if task.state == 'running' then leave_flight(task) end
  call('HSET', task.key, 'state', 'pending', 'worker', '')
  enqueue_again(task)
  tell(task, 'pending', reason, '')
  ring(task.pool)
end

-- How the name of an ask for more of a tenant's money begins; a test compares it with `raising.py`.
local TENANTS_CAP = 'tenant_budget:'

local function waits_no_longer(task)
  call('DEL', key('awaits', task.id))
  call('ZREM', cell('timers'), task.id)
  call('HDEL', key('short', tenant_of(task.flow)), task.id)
  if not asks_no_more(task.id, task.flow) and task.pool then call('ZREM', key('parked', task.pool), task.id) end
end

local function resume(task, reason)
  waits_no_longer(task)
  requeue(task, reason)
end

-- What a task waits for is a set of names; who takes the last one out wakes it. With this one among them the first does.
local FIRST = '*'

local IS_THERE = 'what it waited for is there'

local function wakes_at_first(task_id) return call('SISMEMBER', key('awaits', task_id), FIRST) == 1 end

-- Of a task that waits with its slot (it `holds` it): its worker looks for the answers itself.
local function goes_on(task)
  call('HDEL', task.key, 'holds')
  asks_no_more(task.id, task.flow)
  tell(task, 'running', IS_THERE, task.worker)
end

-- Names of asks among what a task awaits begin so.
local ASK = 'ask:'

local function is_ask(name) return string.sub(name, 1, #ASK) == ASK end

-- Of a task that still waits, but perhaps for its children alone.
local function look_for_asks(task_id)
  for _, name in ipairs(call('SMEMBERS', key('awaits', task_id))) do
    if is_ask(name) then return end
  end
  local task = load_task(task_id, {'trace', 'state', 'pool', 'flow'})
  if not task then return end
  asks_no_more(task_id, task.flow)
  call('ZADD', key('parked', task.pool), NOW, task_id)
end

local function arrived(task_id, name)
  if call('SREM', key('awaits', task_id), name) == 0 then return end
  if call('EXISTS', key('awaits', task_id)) == 1 and not wakes_at_first(task_id) then
    if is_ask(name) then look_for_asks(task_id) end
    return
  end
  local task = load_task(task_id)
  if not task then return end
  if task.state == 'waiting' then resume(task, IS_THERE) elseif task.holds then goes_on(task) end
end

-- An answer to an ask of a task: the one that stands, which is the first; false if the task has ended.
local function give(id, ask, text, by)
  local name = key('answers', id)
  local standing = call('HGET', name, ask)
  if standing then
    arrived(id, ASK .. ask)  -- a tenant's cap may be waited for, and answered, more than once
    return standing
  end
  if not LIVE[call('HGET', key('task', id), 'state')] then return false end
  standing = cjson.encode({text = text, by = by, at_ms = now})
  call('HSET', name, ask, standing)
  call('PEXPIRE', name, A.answers_ms)
  arrived(id, ASK .. ask)
  return standing
end

local LEAVE = {
  running = leave_flight,
  pending = function(task)
    if call('ZREM', cell('timers'), task.id) == 1 then return end
    local pool = pool_of(task.pool)
    pool.ready = pool.ready - 1
    if pool.ready == 0 then sweep(pool) end
  end,
  waiting = waits_no_longer,
}

-- The session is free for another task to go on with.
local function let_go(task)
  local name = key('session', session_of(task))
  call('HDEL', name, 'holder')
  call('PEXPIRE', name, A.retention_ms)
end

local function list_as_ended(task)
  local name = (task.root == 'shards' and 'shards:' or 'live:') .. tenant_of(task.flow)
  local listed = ended_roots[name] or {}
  ended_roots[name] = listed
  listed[#listed + 1] = task.id
end

-- The one terminal move of one task; `by`: the worker that made it, if it was one. What this script has ended already
-- (a child with its parent, a lease that ended with its deadline) is not ended again.
local function close(task, status, result, by)
  if ended[task.id] then return end
  ended[task.id] = true
  ended[#ended + 1] = task.id
  call('HSET', task.key, 'state', status, 'finished', NOW, 'result', result, 'ended_by', by or '')
  call('PEXPIRE', task.key, RETENTION_MS)
  LEAVE[task.state](task)
  append(task.trace, result)
  if task.session or task.checkpoint then let_go(task) end
  if task.mail then call('DEL', key('inbox', session_of(task))) end
  if task.parent then
    call('SREM', key('children', task.parent), task.id)
    arrived(task.parent, task.id)
  else
    over[task.trace] = true
    if task.root then
      call('HSET', key('trace', task.trace), 'ended', NOW)
      list_as_ended(task)
    end
  end
end

local function close_by_queue(task, ending, text)
  local e, began = ENDINGS[ending], tonumber(task.started)
  close(task, e.status, message({
    kind = 'result', trace_id = task.trace, task_id = task.id, attempt = task.attempt, status = e.status,
    errors = {{code = e.code, message = text, hint = e.hint, retryable = e.retryable, turn = e.turn}},
    metrics = {cost_microusd = tonumber(task.spent or 0), latency_ms = began and now - began or 0}, resume_token = task.checkpoint and session_of(task) or '',
  }))
end

-- A running task is told through its worker's keeper; if it has not ended after the grace, the queue ends it.
local function ask_to_stop(task, reason)
  if task.cancel then return wake(task.worker) end
  call('HSET', task.key, 'cancel', reason, 'cancel_ends', now + A.grace_ms)
  call('ZADD', cell('deadlines'), 'LT', now + A.grace_ms, task.id)
  wake(task.worker)
end

-- Stop tasks and all below them: those in line or waiting end at once, running ones are told. How many were alive.
-- From the leaves up, for a reader of the trace goes home with the root's result.
local function stop(ids, reason)
  local alive, at = {}, 1
  while at <= #ids do
    local task = load_task(ids[at])
    at = at + 1
    if task and LIVE[task.state] then
      alive[#alive + 1] = task
      if task.state == 'waiting' then call('DEL', key('awaits', task.id)) end
      if task.has_children then
        for _, child in ipairs(call('SMEMBERS', key('children', task.id))) do ids[#ids + 1] = child end
      end
    end
  end
  for i = #alive, 1, -1 do
    local task = alive[i]
    if task.state == 'running' then ask_to_stop(task, reason) else close_by_queue(task, 'cancelled', reason) end
  end
  return #alive
end

-- First of all the task waits no longer: the end of its children must not wake it.
local function stop_children(task)
  if task.state == 'waiting' then call('DEL', key('awaits', task.id)) end
  if task.has_children then stop(call('SMEMBERS', key('children', task.id)), 'its parent ended') end
end

local function finish_by_queue(task, ending, text)
  stop_children(task)
  close_by_queue(task, ending, text)
end

local function bury(task, code, why)
  call('XADD', cell('dead'), 'MAXLEN', '~', 10000, '*', 'task', task.id, 'trace', task.trace, 'pool', task.pool,
       'code', code, 'why', why, 'worker', task.worker, 'tenant', tenant_of(task.flow))
end

local function lose(task)
  local lost = call('HINCRBY', task.key, 'lost', 1)
  local in_vain = lost - tonumber(task.forgiven or 0)
  count('lost_leases')
  if task.cancel then
    finish_by_queue(task, 'cancelled', task.cancel)
  elseif now >= task.expires then
    finish_by_queue(task, 'expired', TOO_LATE)
  elseif in_vain >= A.poison_after * (task.forgiven and A.way_back or 1) then
    local why = 'the task was given up after ' .. in_vain .. ' lost leases'
    count('poisoned')
    bury(task, 'poison', why)
    finish_by_queue(task, 'poison', why)
  else
    requeue(task, 'its worker was lost')
  end
end

-- The first end in each set that was looked at and had nothing to reap (false: it is empty). Most have nothing.
local next_in = {}

-- Reaping is bounded, so that one script never holds the server for long; who finds a full batch comes again.
local function due_in(name)
  local first = tonumber(call('ZRANGE', name, 0, 0, 'WITHSCORES')[2])
  if not first or first > now then
    next_in[name] = first or false
    return {}
  end
  next_in = {}  -- what is reaped brings new ends
  return call('ZRANGEBYSCORE', name, '-inf', now, 'LIMIT', 0, 200)
end

local function reap_leases(pool)
  local ids = due_in(key('leases', pool))
  for _, id in ipairs(ids) do
    local task = load_task(id)
    if task and task.state == 'running' then lose(task) else call('ZREM', key('leases', pool), id) end
  end
  return #ids
end

local function ends_by(task)
  if task.state ~= 'running' then return task.expires end
  return math.min(task.expires + A.grace_ms, tonumber(task.cancel_ends or math.huge))
end

local function reap_deadlines()
  local ids = due_in(cell('deadlines'))
  for _, id in ipairs(ids) do
    local task = load_task(id)
    if not task or not LIVE[task.state] then
      call('ZREM', cell('deadlines'), id)
    elseif now < ends_by(task) then
      call('ZADD', cell('deadlines'), ends_by(task), id)
    elseif task.cancel then
      finish_by_queue(task, 'cancelled', task.cancel)
    else
      finish_by_queue(task, 'expired', TOO_LATE)
    end
  end
  return #ids
end

-- What was put off, and what has waited long enough.
local function reap_timers()
  local ids = due_in(cell('timers'))
  for _, id in ipairs(ids) do
    local task = load_task(id)
    call('ZREM', cell('timers'), id)
    if task and task.state == 'waiting' then
      resume(task, 'it waited long enough')
    elseif task and task.state == 'pending' then
      enqueue_again(task)
      ring(task.pool)
    end
  end
  return #ids
end

-- Milliseconds until there is something to reap in these pools (-1: nothing at all).
local function next_end(names)
  local soonest, ends = -1, {cell('deadlines'), cell('timers')}
  for _, pool in ipairs(names) do ends[#ends + 1] = key('leases', pool) end
  for _, name in ipairs(ends) do
    local first = next_in[name]
    if first == nil then first = tonumber(call('ZRANGE', name, 0, 0, 'WITHSCORES')[2]) end
    if first then
      local wait = math.max(first - now, 0)
      if soonest < 0 or wait < soonest then soonest = wait end
    end
  end
  return soonest
end

-- The last one without a parent to end sets the term for what the whole trace has. Of many that end in a row only the
-- first does, for a hundredth of the term: each would cost the server a tenth of what a task does.
local function set_term(trace)
  local set = tonumber(call('HGET', key('trace', trace), 'term_set') or 0)
  if now - set < A.retention_ms / 100 then return end
  call('HSET', key('trace', trace), 'term_set', NOW)
  for _, name in ipairs({'trace', 'tasks', 'events'}) do call('PEXPIRE', key(name, trace), RETENTION_MS) end
end

-- What is cheaper once for a script than once for a task.
local function settle()
  settle_line()
  for trace in pairs(over) do set_term(trace) end
  for name, ids in pairs(ended_roots) do
    call_many('ZREM', cell(name), ids)
    call_many('ZREM', cell(string.match(name, '^%a+')), ids)
  end
  if #ended > 0 then
    call_many('ZREM', cell('deadlines'), ended)
    call('XADD', cell('done'), 'MAXLEN', '~', 100000, '*', 'ids', table.concat(ended, ' '))
  end
end
