-- Third part: the moves of a task's life, each for one that was loaded whole, or as far as its script says. The table
-- of states is envelope/lifecycle.py; a script looks at the state before it moves a task.

-- Tasks that this script ended; how many of each trace, and the last entry of each.
local ended, left, last_entry = {}, {}, {}
-- Roots that this script has ended, by the list of live ones that they stood in.
local ended_roots = {}
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
  asks_for_no_money(task)
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
  asks_for_no_money(task)
  asks_no_more(task.id, task.flow)
  tell(task, 'running', IS_THERE, task.worker)
end

-- Names of asks among what a task awaits begin so.
local ASK = 'ask:'

local function is_ask(name) return string.sub(name, 1, #ASK) == ASK end

-- Who waits for money stands in a list of its own, so that raising a cap looks at nobody else: the list that an ask belongs
-- into, and the ask. Nothing for what is no ask for money.
local function money_list(task, name)
  local ask = is_ask(name) and string.sub(name, #ASK + 1) or ''
  if string.sub(ask, 1, #TENANTS_CAP) == TENANTS_CAP then return key('short', tenant_of(task.flow)), ask end
  if string.match(ask, '^' .. TRACES_CAP .. '%d+$') then return key('capped', task.trace), ask end
end

-- Of a task that has the answer to one ask and still waits, perhaps for its children alone.
local function take_ask_out(task_id, ask)
  local task = load_task(task_id, {'trace', 'state', 'pool', 'flow'})
  if not task then return end
  local list = money_list(task, ask)
  if list then call('HDEL', list, task_id) end
  for _, name in ipairs(call('SMEMBERS', key('awaits', task_id))) do
    if is_ask(name) then return end
  end
  asks_no_more(task_id, task.flow)
  call('ZADD', key('parked', task.pool), NOW, task_id)
end

local function arrived(task_id, name)
  if call('SREM', key('awaits', task_id), name) == 0 then return end
  if call('EXISTS', key('awaits', task_id)) == 1 and not wakes_at_first(task_id) then
    if is_ask(name) then take_ask_out(task_id, name) end
    return
  end
  local task = load_task(task_id)
  if not task then return end
  if task.state == 'waiting' then resume(task, IS_THERE) elseif task.holds then goes_on(task) end
end

-- An answer to an ask of a task: the one that stands, which is the first; false if the task has ended. `signed`: what
-- stands in it beside that, of an answer of people's.
local function give(id, ask, text, by, signed)
  local name = key('answers', id)
  local standing = call('HGET', name, ask)
  if standing then
    arrived(id, ASK .. ask)  -- a tenant's cap may be waited for, and answered, more than once
    return standing
  end
  if not LIVE[call('HGET', key('task', id), 'state')] then return false end
  local answer = {text = text, by = by, at_ms = now}
  for field, value in pairs(signed or {}) do answer[field] = value end
  standing = cjson.encode(answer)
  call('HSET', name, ask, standing)
  call('PEXPIRE', name, A.answers_ms)
  arrived(id, ASK .. ask)
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

-- The session is free for another task to go on with: its holder does not live any more, and is who had it last.
local function let_go(task)
  call('PEXPIRE', key('session', session_of(task)), A.retention_ms)
end

local function expires_of_task(id) return tonumber(call('HGET', key('task', id), 'expires') or 0) or 0 end

-- A parent may ask for the result of a child as long as it lives itself. A trace is told of a record that is kept longer
-- for that.
local function kept_ms(task)
  local parent_ends = task.parent and expires_of_task(task.parent)
  if not parent_ends or parent_ends + A.grace_ms - now <= A.retention_ms then return RETENTION_MS end
  call('HSET', key('trace', task.trace), 'kept', 1)
  return text_of(parent_ends + A.grace_ms - now)
end

-- No task lives longer than this, or than the retention.
local DAY_MS = 24 * 3600 * 1000

-- How long the trace of a shard is kept beyond the usual, with its records; nothing for one of which nobody asks. The
-- driver of its batch runs from its start again when its process is killed, and would do again what is forgotten.
local function shard_kept_ms(trace)
  if A.retention_ms >= DAY_MS then return end
  local root = call('HGET', key('trace', trace), 'root')
  local batch = root and call('HGET', key('task', root), 'batch')
  if not batch then return end
  local batch_ends = expires_of_task(batch)
  if batch_ends == 0 then batch_ends = now + DAY_MS end  -- it is not known in this cell
  return batch_ends + A.grace_ms - now > A.retention_ms and text_of(batch_ends + A.grace_ms - now)
end

-- Process → the tasks it waits for that this script has ended. `settle` tells each process once.
local news = {}

local function tell_waiters(task)
  local names = task.awaited_by
  if names == nil then names = call('HGET', task.key, 'awaited_by') end  -- whoever loaded the task did not ask
  if not names then return end
  for process in string.gmatch(names, '%S+') do
    news[process] = news[process] or {}
    table.insert(news[process], task.id)
  end
  call('HDEL', task.key, 'awaited_by')
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
  call('PEXPIRE', task.key, kept_ms(task))
  LEAVE[task.state](task)
  last_entry[task.trace] = append(task.trace, result)
  left[task.trace] = (left[task.trace] or 0) + 1
  tell_waiters(task)
  if task.session or task.checkpoint then let_go(task) end
  if task.mail then call('DEL', key('inbox', session_of(task))) end
  if task.parent then
    call('SREM', key('children', task.parent), task.id)
    arrived(task.parent, task.id)
  elseif task.root then
    call('HSET', key('trace', task.trace), 'ended', NOW)
    list_as_ended(task)
  end
end

local function end_by_queue(task, ending, text)
  local e, began = ENDINGS[ending], tonumber(task.started)
  return {e.status, message({
    kind = 'result', trace_id = task.trace, task_id = task.id, attempt = task.attempt, status = e.status,
    errors = {{code = e.code, message = text, hint = e.hint, retryable = e.retryable, turn = e.turn}},
    metrics = {cost_microusd = tonumber(task.spent or 0), latency_ms = began and math.max(0, now - began) or 0}, resume_token = task.checkpoint and session_of(task) or '',
  })}
end

local function close_by_queue(task, ending, text) close(task, unpack(end_by_queue(task, ending, text))) end

-- After this long somebody looks whether a task is still closing: a chore that is lost must not leave it so.
local CLOSING_MS = 60000

-- The end of a task is decided here, and told by `finish_close` when all below it have ended or were told. Slot, lease
-- and money are free at once. `below`: the reason for those below it.
local function begin_close(task, status, result, by, below)
  call('ZADD', cell('deadlines'), now + CLOSING_MS, task.id)
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

-- Stopping a tree is a walk in depth, from the leaves up: a reader of the trace stops at the root's result. It holds
-- a stack of frames, one for each task that was met and has children: the task, and how far its children were looked
-- through. What a script has no time for is kept as a chore. Tasks above those that are still to be met take no more
-- children: they are closing, or were told to stop.

local function frame_of(task) return {task = task, cursor = '0'} end

local function is_ours(found)
  local why = type(found) == 'table' and found.err or tostring(found)
  return string.find(why, 'OOM') or string.find(why, 'NOPERM') or string.find(why, 'permission')
end

-- What somebody has spoilt is passed over, for it must not keep others from their ends. What our user may not do, or a
-- full server, is no such thing.
local function try(what, ...)
  local fine, found = pcall(what, ...)
  if fine then return found end
  if is_ours(found) then error(found, 0) end
  return nil
end

-- 1 if it was alive and had not been told to stop: who is told twice counts once.
local function meet(id, reason, frames)
  local task = load_task(id)
  spend(LOOK)
  if not task then return 0 end
  if task.state == 'closing' then frames[#frames + 1] = frame_of(task) end
  if not LIVE[task.state] then return 0 end
  spend(1)
  local stopped = task.cancel and 0 or 1
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
  return stopped
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
      return {task = task, cursor = cursor, is_through = cursor == 'end', was_kept = true}
    end
  end
end

-- As far as there is time. `frames` are left over, and what is in `stack`. How many it stopped.
local function walk(frames, reason, stack)
  local alive = 0
  while work_left > 0 do
    local frame = frames[#frames] or kept_frame(stack)
    if not frame then break end
    if #frames == 0 then frames[1] = frame end
    if frame.is_through then
      frames[#frames] = nil
      if frame.was_kept then spend(1) end
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
  local chore = begin_chore('stop', id, tenant_of(frames[1].task.flow))
  call('HSETNX', chore, 'reason', reason)
  call('HINCRBY', chore, 'alive', alive)
  keep(frames, reason, key('stack', id))
end

-- Stop a task and all below it: those in line or waiting end, running ones are told. How many it stopped, as far as the
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
  -- Who is stopping it already hears of these, too, and goes on hearing of those before where the chore begins anew.
  local chore = key('chore', 'stop.' .. task.id)
  local is_open, before = unpack(call('HMGET', chore, 'open', 'alive'))
  if #frames > 0 then
    stop_later(task.id, frames, STOPPED_WITH_PARENT, alive + (is_open and 0 or tonumber(before or 0)))
  elseif before then
    call('HINCRBY', chore, 'alive', alive)
  end
end

local function finish_by_queue(task, ending, text) close_tree(task, end_by_queue(task, ending, text)) end

-- The reason for which a tree above this task is being stopped, where the walk has not met the task yet: then it must not
-- start, and it ends for that reason. No task has more than `max_depth` above it; without chores it costs nothing.
local function reason_above(task)
  if has_chores == nil then has_chores = call('EXISTS', cell('chores')) == 1 end
  local above, met, doom = has_chores and task.parent, {}, nil
  for _ = 1, A.max_depth do
    if not above then break end
    if dooms[above] ~= nil then
      doom = dooms[above]
      break
    end
    local state, told, below, parent = unpack(call('HMGET', key('task', above), 'state', 'cancel', 'below', 'parent'))
    if not state then break end
    met[#met + 1] = above
    doom = told or below or not LIVE[state] and STOPPED_WITH_PARENT
    if doom then break end
    above = parent
  end
  for _, id in ipairs(met) do dooms[id] = doom or false end
  return doom or nil
end

local function bury(task, code, why)
  call('XADD', cell('dead'), 'MAXLEN', '~', 10000, '*', 'task', task.id, 'trace', task.trace, 'pool', task.pool,
       'code', code, 'why', why, 'worker', task.worker, 'tenant', tenant_of(task.flow))
end

-- Those who wait at a cap go on where their ask names another one. As far as there is time, from a cursor on. Returns the
-- cursor to go on from, how many went on, and whether all were looked at.
local function wake_at_cap(waiting, is_answered, by, cursor)
  local woken = 0
  repeat
    local page = call('HSCAN', waiting, cursor, 'COUNT', PAGE)
    for at = 1, #page[2], 2 do
      -- A small hash comes in one page, which is read again then: those who went on are no longer in it.
      if work_left <= 0 then return cursor, woken, false end
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
    cursor = page[1]
  until cursor == '0' or work_left <= 0
  return cursor, woken, cursor == '0'
end

local function wake_trace(trace, by, cursor)
  local cap = number(call('HGET', key('trace', trace), 'cap'))
  return wake_at_cap(key('capped', trace), function(ask)
    return cap > (tonumber(string.sub(ask, #TRACES_CAP + 1)) or 0)
  end, by, cursor)
end

local function wake_tenant(tenant, by, cursor)
  local cap = call('HGET', key('money', tenant), 'cap')
  return wake_at_cap(key('short', tenant), function(ask) return not cap or ask ~= TENANTS_CAP .. cap end, by, cursor)
end

-- When a chore is done, its caller can still ask for this long how many tasks were stopped; `pace` is kept as long.
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
    local at, _, is_done = wake_some(id, by or '', cursor_of(cursor))
    call('HSET', chore, 'cursor', kept_cursor(at))
    return is_done
  end
end

CHORES.raise, CHORES.fund = go_on_waking(wake_trace), go_on_waking(wake_tenant)

local function close_chore(kind, chore)
  if kind ~= 'stop' then return call('DEL', chore) end
  call('HDEL', chore, 'open')
  call('PEXPIRE', chore, KEPT_MS)
end

-- What somebody has spoilt must stop neither the other chores nor the script: such a chore is dropped. (Tasks that it leaves
-- closing are met again by their deadlines.) False: there is none.
local function do_chore(tenant)
  local name = tenant and call('LPOP', key('chores', tenant))
  if not name then return tenant end
  if call('EXISTS', key('chores', tenant)) == 1 then call('RPUSH', cell('chores'), tenant) end
  local kind, id = string.match(name, '^(%a+)%.(.*)$')
  local chore = key('chore', name)
  local fine, is_done = pcall(CHORES[kind], id, chore)
  if fine and not is_done then
    queue_chore(tenant, name)
  elseif fine then
    close_chore(kind, chore)
  elseif is_ours(is_done) then
    queue_chore(tenant, name)
    error(is_done, 0)
  else
    call('DEL', chore)
    count('chores_dropped')
  end
  return true
end

-- One bite of the chores; tenants take turns, so that one's huge tree does not delay another's small one. Bites are apart
-- by `bite_every_ms`, however many come: the rest of the server's time is for others.
-- Returns the milliseconds until the next one (-1: there are no chores).
local function do_chores()
  if call('EXISTS', cell('chores')) == 0 then return -1 end
  local last = number(call('HGET', cell('pace'), 'at'))
  if work_left <= 0 then return A.bite_every_ms end
  if now >= last and now - last < A.bite_every_ms then return last + A.bite_every_ms - now end
  call('HSET', cell('pace'), 'at', NOW)
  call('PEXPIRE', cell('pace'), KEPT_MS)
  while work_left > 0 and do_chore(call('LPOP', cell('chores'))) do spend(LOOK) end
  return call('EXISTS', cell('chores')) == 1 and A.bite_every_ms or -1
end

-- Of those who wait, one comes back for the next bite, soon; the others see after a while that somebody does. `extra_ms`:
-- for those who should come only where nobody else does.
local STEWARD_MS = 500

local function next_bite(who, extra_ms)
  if call('EXISTS', cell('chores')) == 0 then return nil end
  local by, till = unpack(call('HMGET', cell('pace'), 'by', 'till'))
  till = number(till)
  if by == who or now > till + extra_ms or till > now + STEWARD_MS then
    call('HSET', cell('pace'), 'by', who, 'till', text_of(now + STEWARD_MS))
    call('PEXPIRE', cell('pace'), KEPT_MS)
    return A.bite_every_ms
  end
  return till + extra_ms + 1 - now
end

-- What ended tasks took, for the admission of new ones (`pressure.py`): bytes and tasks of the traces that were measured, the
-- latest counting most. Of those that end together one is measured: measuring costs as much as ending.
local FADES = 63 / 64

-- Some services do not know the command.
local function usage_of(name, samples)
  local bytes = redis.pcall('MEMORY', 'USAGE', name, 'SAMPLES', samples)
  return type(bytes) == 'number' and bytes or 0
end

local function measure(trace)
  local tasks = call('LLEN', key('tasks', trace))
  local last = call('LINDEX', key('tasks', trace), -1)
  if not last then return end
  local bytes = usage_of(key('events', trace), 5) + usage_of(key('trace', trace), 0) + tasks * usage_of(key('task', last), 0)
  if bytes == 0 then return end
  local before = call('HMGET', cell('usage'), 'bytes', 'tasks')
  call('HSET', cell('usage'), 'bytes', string.format('%.0f', number(before[1]) * FADES + bytes),
       'tasks', string.format('%.3f', number(before[2]) * FADES + tasks))
end

-- No parent lives that may ask for the records of its children. Of very many the first: the rest go at the latest with
-- their parents' deadlines.
local function set_life_of_records(trace, life_ms)
  for _, id in ipairs(call('LRANGE', key('tasks', trace), 0, 999)) do call('PEXPIRE', key('task', id), life_ms) end
end

-- The retention of a trace begins with the end of its last live task. False: some live. (Who may write here can spoil the
-- count: then nothing lives.)
local function has_ended(trace, count)
  local live = redis.pcall('HINCRBY', key('trace', trace), 'live', -count)
  if type(live) == 'number' and live > 0 then return false end
  redis.pcall('HSET', key('trace', trace), 'last', last_entry[trace])
  local is_kept, longer = redis.pcall('HDEL', key('trace', trace), 'kept') == 1, shard_kept_ms(trace)
  if is_kept or longer then set_life_of_records(trace, longer or RETENTION_MS) end
  for _, name in ipairs({'trace', 'tasks', 'events'}) do call('PEXPIRE', key(name, trace), longer or RETENTION_MS) end
  return true
end

-- Traces by the moment of their end: those that `trim` begins with. Those that are gone leave it some at a time.
local function settle_traces()
  local traces = {}
  for trace, count in pairs(left) do
    if has_ended(trace, count) then traces[#traces + 1], traces[#traces + 2] = NOW, trace end
  end
  if #traces == 0 then return end
  call_many('ZADD', cell('ended'), traces)
  local gone = call('ZRANGEBYSCORE', cell('ended'), '-inf', now - A.retention_ms, 'LIMIT', 0, 1000)
  call_many('ZREM', cell('ended'), gone)
  call('PEXPIRE', cell('ended'), RETENTION_MS)
  measure(traces[2])
end

-- What is cheaper once for a script than once for a task.
local function settle()
  settle_line()
  for name, ids in pairs(ended_roots) do
    call_many('ZREM', cell(name), ids)
    call_many('ZREM', cell(string.match(name, '^%a+')), ids)
  end
  if #ended > 0 then
    call_many('ZREM', cell('deadlines'), ended)
    call('XADD', cell('done'), 'MAXLEN', '~', 100000, '*', 'ids', table.concat(ended, ' '))
    for process, ids in pairs(news) do
      -- a process that is gone has no stream, and gets none
      call('XADD', key('news', process), 'NOMKSTREAM', 'MAXLEN', '~', 10000, '*', 'ids', table.concat(ids, ' '))
    end
    settle_traces()
  end
end
