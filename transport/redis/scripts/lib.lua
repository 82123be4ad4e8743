-- In front of every script: keys, the server's time, and the few moves that all scripts are made of. (`script.py` puts
-- the script into a function, and calls `settle` after it.) A script takes the
-- cell's prefix as its only key and one msgpack blob of arguments.

local PREFIX = KEYS[1]
local A = cmsgpack.unpack(ARGV[1])
local call = redis.call

local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- What this script has done, for `settle`.
local ended, pools = {}, {}

local LIVE = {pending = true, running = true, waiting = true}
-- What the queue itself says when it ends a task; a test compares the codes with envelope/errors.py.
local ENDINGS = {
  cancelled = {status = 'cancelled', code = 'cancelled', retryable = true, turn = 'caller', hint = ''},
  expired = {status = 'expired', code = 'deadline', retryable = true, turn = 'caller',
             hint = 'give it a longer deadline, or look whether its pool has workers'},
  poison = {status = 'error', code = 'poison', retryable = false, turn = 'operator',
            hint = 'look into the logs of the workers that it took down'},
}
local FIELDS = {'trace', 'pool', 'flow', 'state', 'attempt', 'worker', 'expires', 'lost', 'parent', 'root', 'cancel',
                'spent', 'started', 'accepted'}

local function key(name, id) return PREFIX .. ':' .. name .. ':' .. id end
local function cell(name) return PREFIX .. ':' .. name end
local function count(name) call('HINCRBY', cell('counters'), name, 1) end

-- `fields` for those who need few of them, or others; `trace` always leads.
local function load_task(id, fields)
  fields = fields or FIELDS
  local values = call('HMGET', key('task', id), unpack(fields))
  if not values[1] then return nil end
  local task = {id = id}
  for i, name in ipairs(fields) do task[name] = values[i] end
  task.attempt = tonumber(task.attempt)
  task.expires = tonumber(task.expires)
  return task
end

-- The framing of envelope/codec.py, unsigned: version 1, then [bin32 body, '', bin8 of nothing].
local function message(body)
  local bytes = cmsgpack.pack(body)
  return '\1\147\198' .. struct.pack('>I4', #bytes) .. bytes .. '\160\196\0'
end

local function append(trace, bytes)
  call('XADD', key('events', trace), 'MAXLEN', '~', A.max_entries, '*', 'm', bytes)
end

-- The queue's own progress stands outside the worker's count: its seq is -1.
local function tell(task, state, reason, worker)
  append(task.trace, message({
    kind = 'progress', trace_id = task.trace, task_id = task.id, attempt = task.attempt, seq = -1, at_ms = now,
    status = state, events = {{kind = 'state', state = state, reason = reason, worker = worker}},
  }))
end

local function ring(pool)
  if call('EXISTS', key('bell', pool)) == 0 then call('LPUSH', key('bell', pool), 1) end
end

local function wake(worker)
  local name = key('wake', worker)
  if call('EXISTS', name) == 0 then call('LPUSH', name, 1) end
  call('EXPIRE', name, 60)
end

-- A pool's figures: read once, written once, by `settle`.
local function pool_of(name)
  if not pools[name] then
    local found = call('HMGET', key('pool', name), 'vtime', 'ready')
    local vtime, ready = tonumber(found[1] or 0), tonumber(found[2] or 0)
    pools[name] = {vtime = vtime, ready = ready, stored_vtime = vtime, stored_ready = ready}
  end
  return pools[name]
end

-- One place in line: at the flow's tail, or at its head for a task that has waited before. Each new flow comes a
-- little later than the one before, so that flows of a single task start in the order in which they came.
-- A flow goes by the whole name of its list: longer than 64 bytes, so that Redis keeps the flows in a skip list. In its
-- compact form for short members each move among 100 flows costs five times as much.
local function enqueue(push, task)
  local pool, flow = pool_of(task.pool), key('flow', task.pool .. ':' .. task.flow)
  call(push, flow, task.id)
  if call('ZADD', key('flows', task.pool), 'NX', pool.vtime + A.tick, flow) == 1 then pool.vtime = pool.vtime + A.tick end
  pool.ready = pool.ready + 1
end

local function requeue(task, reason)
  call('HSET', key('task', task.id), 'state', 'pending', 'worker', '')
  call('ZREM', key('leases', task.pool), task.id)
  enqueue('LPUSH', task)
  tell(task, 'pending', reason, '')
  ring(task.pool)
end

-- The one terminal move of one task; `by`: the worker that made it, if it was one. What this script has ended already
-- (a child with its parent, a lease that ended with its deadline) is not ended again.
local function close(task, status, result, by)
  if ended[task.id] then return end
  ended[task.id] = true
  call('HSET', key('task', task.id), 'state', status, 'finished', now, 'result', result, 'ended_by', by or '')
  call('PEXPIRE', key('task', task.id), A.retention_ms)
  if task.state == 'running' then
    call('ZREM', key('leases', task.pool), task.id)
  elseif task.state == 'pending' then
    local pool = pool_of(task.pool)
    pool.ready = pool.ready - 1
  end
  if task.parent then call('SREM', key('children', task.parent), task.id) end
  append(task.trace, result)
  ended[#ended + 1] = task.id
  if task.root then
    call('HSET', key('trace', task.trace), 'ended', now)
    for _, name in ipairs({'trace', 'tasks', 'events'}) do call('PEXPIRE', key(name, task.trace), A.retention_ms) end
  end
end

local function close_by_queue(task, ending, text)
  local e = ENDINGS[ending]
  close(task, e.status, message({
    kind = 'result', trace_id = task.trace, task_id = task.id, attempt = task.attempt, status = e.status,
    errors = {{code = e.code, message = text, hint = e.hint, retryable = e.retryable, turn = e.turn}},
    metrics = {cost_microusd = tonumber(task.spent or 0)},
  }))
end

-- Stop tasks and all below them: queued ones end at once, running ones are told. How many were alive.
local function stop(ids, reason)
  local alive, at = 0, 1
  while at <= #ids do
    local task = load_task(ids[at])
    at = at + 1
    if task and LIVE[task.state] then
      alive = alive + 1
      for _, child in ipairs(call('SMEMBERS', key('children', task.id))) do ids[#ids + 1] = child end
      if task.state == 'running' then
        if not task.cancel then call('HSET', key('task', task.id), 'cancel', reason) end
        wake(task.worker)
      else
        close_by_queue(task, 'cancelled', reason)
      end
    end
  end
  return alive
end

local function stop_children(task) stop(call('SMEMBERS', key('children', task.id)), 'its parent ended') end

local function finish_by_queue(task, ending, text)
  stop_children(task)
  close_by_queue(task, ending, text)
end

local function lose(task)
  local lost = call('HINCRBY', key('task', task.id), 'lost', 1)
  count('lost_leases')
  if task.cancel then
    finish_by_queue(task, 'cancelled', task.cancel)
  elseif now >= task.expires then
    finish_by_queue(task, 'expired', 'the task did not end before its deadline')
  elseif lost >= A.poison_after then
    count('poisoned')
    call('XADD', cell('dead'), 'MAXLEN', '~', 10000, '*', 'task', task.id, 'trace', task.trace, 'pool', task.pool,
         'why', 'poison', 'worker', task.worker)
    finish_by_queue(task, 'poison', 'the task was given up after ' .. lost .. ' lost leases')
  else
    requeue(task, 'its worker was lost')
  end
end

-- Bounded, so that one script never holds the server for long; who finds a full batch comes again.
local function reap_leases(pool)
  local ids = call('ZRANGEBYSCORE', key('leases', pool), '-inf', now, 'LIMIT', 0, 200)
  for _, id in ipairs(ids) do
    local task = load_task(id)
    if task and task.state == 'running' then lose(task) else call('ZREM', key('leases', pool), id) end
  end
  return #ids
end

local function reap_deadlines()
  local ids = call('ZRANGEBYSCORE', cell('deadlines'), '-inf', now, 'LIMIT', 0, 200)
  for _, id in ipairs(ids) do
    local task = load_task(id)
    if not task or not LIVE[task.state] then
      call('ZREM', cell('deadlines'), id)
    elseif task.state == 'running' and now < task.expires + A.grace_ms then
      call('ZADD', cell('deadlines'), task.expires + A.grace_ms, id)
    else
      finish_by_queue(task, 'expired', 'the task did not end before its deadline')
    end
  end
  return #ids
end

-- `call` with any number of values: Lua hands over about 8,000 at once.
local function call_many(command, name, values)
  for at = 1, #values, 1000 do call(command, name, unpack(values, at, math.min(at + 999, #values))) end
end

-- What is cheaper once for a script than once for a task.
local function settle()
  for name, pool in pairs(pools) do
    if pool.vtime ~= pool.stored_vtime or pool.ready ~= pool.stored_ready then
      call('HSET', key('pool', name), 'vtime', pool.vtime, 'ready', pool.ready)
    end
  end
  if #ended > 0 then
    call_many('ZREM', cell('deadlines'), ended)
    call('XADD', cell('done'), 'MAXLEN', '~', 100000, '*', 'ids', table.concat(ended, ' '))
  end
end
