-- Third part: the moves of a task's life, each for one that was loaded whole, or as far as its script says. The table
-- of states is envelope/lifecycle.py; a script looks at the state before it moves a task.

local ended, over = {}, {}
-- Tasks whose end stands, but is not told yet: see `begin_close`.
local decided = {}
local STOPPED_WITH_PARENT = 'its parent ended'

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
-- The same of a trace's.
local TRACES_CAP = 'budget:'

local function waits_no_longer(task)
  call('DEL', key('awaits', task.id))
  call('ZREM', cell('timers'), task.id)
  call('HDEL', key('short', tenant_of(task.flow)), task.id)
  call('HDEL', key('capped', task.trace), task.id)
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
  tell(task, 'running', IS_THERE, task.worker)
end

local function arrived(task_id, name)
  if call('SREM', key('awaits', task_id), name) == 0 then return end
  if call('EXISTS', key('awaits', task_id)) == 1 and not wakes_at_first(task_id) then return end
  local task = load_task(task_id)
  if not task then return end
  if task.state == 'waiting' then resume(task, IS_THERE) elseif task.holds then goes_on(task) end
end

-- An answer to an ask of a task: the one that stands, which is the first; false if the task has ended.
local function give(id, ask, text, by)
  local name = key('answers', id)
  local standing = call('HGET', name, ask)
  if standing then
    arrived(id, 'ask:' .. ask)  -- a tenant's cap may be waited for, and answered, more than once
    return standing
  end
  if not LIVE[call('HGET', key('task', id), 'state')] then return false end
  standing = cjson.encode({text = text, by = by, at_ms = now})
  call('HSET', name, ask, standing)
  call('PEXPIRE', name, A.answers_ms)
  arrived(id, 'ask:' .. ask)
  return standing
end

local LEAVE = {
  running = leave_flight,
  closing = function() end,
  pending = function(task)
    if call('ZREM', cell('timers'), task.id) == 1 then return end
    local pool, tenant = pool_of(task.pool), tenant_of(task.flow)
    pool.ready = pool.ready - 1
    queued[tenant] = (queued[tenant] or 0) - 1
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
    if task.root then call('HSET', key('trace', task.trace), 'ended', NOW) end
  end
end

local function end_by_queue(task, ending, text)
  local e, began = ENDINGS[ending], tonumber(task.started)
  return {e.status, message({
    kind = 'result', trace_id = task.trace, task_id = task.id, attempt = task.attempt, status = e.status,
    errors = {{code = e.code, message = text, hint = e.hint, retryable = e.retryable, turn = e.turn}},
    metrics = {cost_microusd = tonumber(task.spent or 0), latency_ms = began and now - began or 0}, resume_token = task.checkpoint and session_of(task) or '',
  })}
end

local function close_by_queue(task, ending, text) close(task, unpack(end_by_queue(task, ending, text))) end

-- The end of a task is decided here, and told by `finish_close` when all below it have ended or were told. Slot, lease
-- and money are free at once. `below`: the reason for those below it.
local function begin_close(task, status, result, by, below)
  decided[#decided + 1] = task.id
  call('HSET', task.key, 'state', 'closing', 'was', task.state, 'end_status', status, 'end_result', result,
       'ended_by', by or '', 'below', below)
  LEAVE[task.state](task)
  task.state = 'closing'
end

local function finish_close(task)
  close(task, task.end_status, task.end_result, task.ended_by)
  call('HDEL', task.key, 'was', 'end_status', 'end_result', 'below')
end

-- A running task is told through its worker's keeper; if it has not ended after the grace, the queue ends it.
local function ask_to_stop(task, reason)
  if task.cancel then return wake(task.worker) end
  call('HSET', task.key, 'cancel', reason, 'cancel_ends', now + A.grace_ms)
  call('ZADD', cell('deadlines'), 'LT', now + A.grace_ms, task.id)
  wake(task.worker)
end

-- Stopping a tree is a walk in depth, from the leaves up: a reader of the trace goes home with the root's result. It holds
-- a stack of frames, one for each task that was met and has children: the task, and how far its children were looked
-- through. What a script has no time for is kept as a chore. Tasks above those that are still to be met take no more
-- children: they are closing, or were told to stop.

local function frame_of(task) return {task = task, cursor = '0'} end

-- What somebody has spoilt is passed over, for it must not keep others from their ends. What our user may not do, or a
-- full server, is no such thing.
local function try(what, ...)
  local fine, found = pcall(what, ...)
  if fine then return found end
  local why = type(found) == 'table' and found.err or tostring(found)
  if string.find(why, 'OOM') or string.find(why, 'NOPERM') or string.find(why, 'permission') then error(why, 0) end
  return nil
end

-- 1 if it was alive.
local function meet(id, reason, frames)
  local task = load_task(id)
  spend(LOOK)
  if not task then return 0 end
  if task.state == 'closing' then frames[#frames + 1] = frame_of(task) end
  if not LIVE[task.state] then return 0 end
  spend(1)
  if task.state == 'running' then
    ask_to_stop(task, reason)
    task.told = true
  elseif task.state == 'waiting' then
    call('DEL', key('awaits', task.id))  -- the end of its children must not wake it
  end
  if task.has_children then
    frames[#frames + 1] = frame_of(task)
  elseif not task.told then
    close_by_queue(task, 'cancelled', reason)
  end
  return 1
end

-- All below it have ended, or were told.
local function leave_frame(frame, reason)
  local task = frame.task
  if frame.ending then
    close(task, unpack(frame.ending))
  elseif task.state == 'closing' then
    finish_close(task)
  elseif not task.told and task.state ~= 'running' and LIVE[task.state] then
    close_by_queue(task, 'cancelled', reason)
  end
end

-- The deepest frame that was kept.
local function kept_frame(stack)
  while stack and work_left > 0 do
    local kept = call('RPOP', stack)
    if not kept then return nil end
    local id, cursor = string.match(kept, '^(%S+) (%S+)$')
    local task = load_task(id)
    spend(LOOK)
    if task and (LIVE[task.state] or task.state == 'closing') then
      cursor = cursor_of(cursor)
      return {task = task, cursor = cursor, is_through = cursor == 'end'}
    end
  end
end

-- As far as there is time. `frames` are left over, and what is in `stack`. How many were alive.
local function walk(frames, reason, stack)
  local alive = 0
  while work_left > 0 do
    local frame = frames[#frames] or kept_frame(stack)
    if not frame then break end
    if #frames == 0 then frames[1] = frame end
    if frame.is_through then
      frames[#frames] = nil
      try(leave_frame, frame, reason)
    else
      local page = try(call, 'SSCAN', key('children', frame.task.id), frame.cursor, 'COUNT', PAGE) or {'0', {}}
      spend(LOOK)
      frame.cursor, frame.is_through = page[1], page[1] == '0'
      for _, id in ipairs(page[2]) do alive = alive + (try(meet, id, reason, frames) or 0) end
    end
  end
  return alive
end

local function keep(frames, reason, stack)
  local kept = {}
  for i, frame in ipairs(frames) do
    local task = frame.task
    if frame.ending then
      begin_close(task, frame.ending[1], frame.ending[2], frame.ending[3], reason)
    elseif task.state == 'pending' or task.state == 'waiting' then
      local ending = end_by_queue(task, 'cancelled', reason)
      begin_close(task, ending[1], ending[2], '', reason)
    end
    kept[i] = task.id .. ' ' .. kept_cursor(frame.is_through and 'end' or frame.cursor)
  end
  call_many('RPUSH', stack, kept)
end

-- `stop.` and the task at the top is the chore's name.
local function stop_later(id, frames, reason, alive)
  local chore = begin_chore('stop', id)
  call('HSETNX', chore, 'reason', reason)
  call('HINCRBY', chore, 'alive', alive)
  keep(frames, reason, key('stack', id))
end

-- Stop a task and all below it: those in line or waiting end, running ones are told. How many were alive, as far as the
-- walk has come; what is left is a chore.
local function stop(id, reason)
  local frames = {}
  local alive = meet(id, reason, frames)
  alive = alive + walk(frames, reason)
  if #frames > 0 then stop_later(id, frames, reason, alive) end
  return alive
end

-- End a task after all below it.
local function close_tree(task, ending)
  if task.state == 'waiting' then call('DEL', key('awaits', task.id)) end
  if not task.has_children then return close(task, unpack(ending)) end
  local frame = frame_of(task)
  frame.ending = ending
  local frames = {frame}
  local alive = walk(frames, STOPPED_WITH_PARENT)
  if #frames > 0 then stop_later(task.id, frames, STOPPED_WITH_PARENT, alive) end
end

local function finish_by_queue(task, ending, text) close_tree(task, end_by_queue(task, ending, text)) end

-- Why a task must not start, or end for a reason of its own: above it a tree is being stopped, and the walk has not come
-- to it yet. A bounded look; where there are no chores it costs nothing.
local function doom_of(task)
  if has_chores == nil then has_chores = call('EXISTS', cell('chores')) == 1 end
  local above = has_chores and task.parent
  for _ = 1, 100 do
    if not above then return nil end
    local state, told, below, parent = unpack(call('HMGET', key('task', above), 'state', 'cancel', 'below', 'parent'))
    if not state then return nil end
    if told or below then return told or below end
    if not LIVE[state] then return STOPPED_WITH_PARENT end
    above = parent
  end
end

local function bury(task, code, why)
  call('XADD', cell('dead'), 'MAXLEN', '~', 10000, '*', 'task', task.id, 'trace', task.trace, 'pool', task.pool,
       'code', code, 'why', why, 'worker', task.worker)
end

local function lose(task)
  local doom = not task.cancel and doom_of(task)
  if doom then
    stop(task.id, doom)
    task.cancel = doom
  end
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

-- Reaping is bounded, so that one script never holds the server for long: `next_end` says that there is more.
local function due_in(name)
  local first = tonumber(call('ZRANGE', name, 0, 0, 'WITHSCORES')[2])
  if not first or first > now then
    next_in[name] = first or false
    return {}
  end
  next_in = {}  -- what is reaped brings new ends
  if work_left <= 0 then return {} end
  return call('ZRANGEBYSCORE', name, '-inf', now, 'LIMIT', 0, math.ceil(work_left))
end

local function reap_leases(pool)
  local touched = 0
  for _, id in ipairs(due_in(key('leases', pool))) do
    if work_left <= 0 then break end
    spend(1)
    touched = touched + 1
    local task = load_task(id)
    if task and task.state == 'running' then lose(task) else call('ZREM', key('leases', pool), id) end
  end
  return touched
end

local function ends_by(task)
  if task.state ~= 'running' then return task.expires end
  return math.min(task.expires + A.grace_ms, tonumber(task.cancel_ends or math.huge))
end

local function reap_deadlines()
  local touched = 0
  for _, id in ipairs(due_in(cell('deadlines'))) do
    if work_left <= 0 then break end
    spend(1)
    touched = touched + 1
    local task = load_task(id)
    local doom = task and LIVE[task.state] and not task.cancel and now >= ends_by(task) and doom_of(task)
    if not task or not LIVE[task.state] then
      call('ZREM', cell('deadlines'), id)
    elseif now < ends_by(task) then
      call('ZADD', cell('deadlines'), ends_by(task), id)
    elseif doom then
      stop(id, doom)
    elseif task.cancel then
      finish_by_queue(task, 'cancelled', task.cancel)
    else
      finish_by_queue(task, 'expired', TOO_LATE)
    end
  end
  return touched
end

-- What was put off, and what has waited long enough.
local function reap_timers()
  local touched = 0
  for _, id in ipairs(due_in(cell('timers'))) do
    if work_left <= 0 then break end
    spend(1)
    touched = touched + 1
    local task = load_task(id)
    call('ZREM', cell('timers'), id)
    if task and task.state == 'waiting' then
      resume(task, 'it waited long enough')
    elseif task and task.state == 'pending' then
      enqueue_again(task)
      ring(task.pool)
    end
  end
  return touched
end

-- Those who wait at a cap go on where their ask names another one. As far as there is time, from a cursor on; the
-- cursor to go on from ('0': all were looked at), and how many went on.
local function wake_at_cap(waiting, is_answered, by, cursor)
  local woken = 0
  repeat
    local page = call('HSCAN', waiting, cursor, 'COUNT', PAGE)
    cursor = page[1]
    for at = 1, #page[2], 2 do
      local id, ask = page[2][at], page[2][at + 1]
      spend(LOOK)
      if is_answered(ask) then
        spend(1)
        woken = woken + 1
        call('HDEL', waiting, id)
        try(give, id, ask, 'raised', by)
      end
    end
    spend(LOOK)
  until cursor == '0' or work_left <= 0
  return cursor, woken
end

local function wake_trace(trace, by, cursor)
  local cap = tonumber(call('HGET', key('trace', trace), 'cap') or 0)
  return wake_at_cap(key('capped', trace), function(ask)
    return cap > (tonumber(string.sub(ask, #TRACES_CAP + 1)) or 0)
  end, by, cursor)
end

local function wake_tenant(tenant, by, cursor)
  local cap = call('HGET', key('money', tenant), 'cap')
  return wake_at_cap(key('short', tenant), function(ask) return not cap or ask ~= TENANTS_CAP .. cap end, by, cursor)
end

-- How long the count of a tree that was stopped is kept, for who asked; and who does the bites, when there are none.
local KEPT_MS = 10000
-- By kind, each one bite: whether it is done.
local CHORES = {}

function CHORES.stop(id, chore)
  local reason, frames, stack = call('HGET', chore, 'reason') or STOPPED_WITH_PARENT, {}, key('stack', id)
  local fine, found = pcall(walk, frames, reason, stack)
  keep(frames, reason, stack)
  if not fine then error(found, 0) end
  call('HINCRBY', chore, 'alive', found)
  return call('EXISTS', stack) == 0
end

function CHORES.sweep(name)
  local pool = pool_of(name)
  return pool.ready > 0 or sweep_some(pool)
end

local function go_on_waking(wake_some)
  return function(id, chore)
    local by, cursor = unpack(call('HMGET', chore, 'by', 'cursor'))
    local at = wake_some(id, by or '', cursor_of(cursor))
    call('HSET', chore, 'cursor', kept_cursor(at))
    return at == '0'
  end
end

CHORES.raise, CHORES.fund = go_on_waking(wake_trace), go_on_waking(wake_tenant)

local function close_chore(kind, chore)
  if kind ~= 'stop' then return call('DEL', chore) end
  call('HDEL', chore, 'open')
  call('PEXPIRE', chore, KEPT_MS)
end

-- One bite of the chores, in turn, so that one tenant's huge tree does not delay another's small one. Bites are apart
-- by `bite_every_ms`, however many come: the rest of the server's time is for others.
-- Returns the milliseconds until the next one (-1: there are no chores).
local function do_chores()
  local count = call('LLEN', cell('chores'))
  if count == 0 then return -1 end
  local last = tonumber(call('HGET', cell('pace'), 'at') or 0)
  if work_left <= 0 then return A.bite_every_ms end
  if now >= last and now - last < A.bite_every_ms then return last + A.bite_every_ms - now end
  call('HSET', cell('pace'), 'at', NOW)
  call('PEXPIRE', cell('pace'), KEPT_MS)
  for _ = 1, count do
    if work_left <= 0 then break end
    local name = call('LINDEX', cell('chores'), 0)
    local kind, id = string.match(name, '^(%a+)%.(.*)$')
    local chore = key('chore', name)
    local is_done = CHORES[kind] and CHORES[kind](id, chore)
    call('LPOP', cell('chores'))
    if is_done then close_chore(kind, chore) else call('RPUSH', cell('chores'), name) end
  end
  return call('EXISTS', cell('chores')) == 1 and A.bite_every_ms or -1
end

-- Of those who wait, one comes back for the next bite, soon; the others see after a while that somebody does. `extra_ms`:
-- for those who should come only where nobody else does.
local STEWARD_MS = 500

local function next_bite(who, extra_ms)
  if call('EXISTS', cell('chores')) == 0 then return nil end
  local by, till = unpack(call('HMGET', cell('pace'), 'by', 'till'))
  till = tonumber(till or 0)
  if by == who or now > till + extra_ms or till > now + STEWARD_MS then
    call('HSET', cell('pace'), 'by', who, 'till', text_of(now + STEWARD_MS))
    call('PEXPIRE', cell('pace'), KEPT_MS)
    return A.bite_every_ms
  end
  return till + extra_ms + 1 - now
end

-- Milliseconds until there is something to reap in these pools (-1: nothing at all), or to do for `who` of the chores.
local function next_end(names, who, extra_ms)
  local soonest, ends = who and next_bite(who, extra_ms) or -1, {cell('deadlines'), cell('timers')}
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
  call_many('ZREM', cell('deadlines'), decided)
  if #ended > 0 then
    call_many('ZREM', cell('deadlines'), ended)
    call('XADD', cell('done'), 'MAXLEN', '~', 100000, '*', 'ids', table.concat(ended, ' '))
  end
end
