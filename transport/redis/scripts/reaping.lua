-- Fourth part, for the scripts that look after what is over (claim, renew, reap): the lease clock, and the end of leases,
-- deadlines and timers. `look` comes first in each of them.

-- The lease clock. Leases end by it, and not by the server's clock: it stands still while nobody looks, for a worker that
-- could not renew has not failed. A gap of over a third of a lease between two looks (claim, renew, reap) says that the
-- server was away (dead, frozen, loading, failing over, a slot on its way, a long script, no network), that its clock was
-- set, or that nobody was alive. Whoever is alive looks every quarter of a lease, so that no other gap is as long.
--   A gap does not count, and after it the clock rests for a quarter of a lease: with the three quarters that a renewed
-- lease had left, its worker has a whole lease to come back. A gap that follows another within a lease counts for a
-- sixth and gives no rest: so the clock goes on although every look is late, and who is dead is noticed.
--   Where the server's clock was set back, this one goes on from where it was.
-- `reaper` holds: `at`, the last look, a sixtieth of a lease too early at most, which keeps it cheap; `lag`, by how much
-- the lease clock is behind the server's; `floor`, what it showed after the last gap, and the least that it shows;
-- `away_from` and `away_to`, that gap by the server's clock; `excused`, the floor of the last gap that was an outage;
-- `server`, which process it was.
local GRAIN_MS = math.ceil(A.lease_ms / 60)
-- Leases below 600 ms are for tests, and a busy machine makes a gap of 100 ms by itself.
local LONGEST_GAP_MS = math.max(A.lease_ms / 3, 200)

local lease_clock = nil

local function lease_time_at(moment) return math.max(lease_clock.floor, moment - lease_clock.lag) end

local function lease_time() return lease_time_at(now) end

local function store_clock(...)
  call('HSET', cell('reaper'), 'at', NOW, 'lag', text_of(lease_clock.lag), 'floor', text_of(lease_clock.floor), ...)
end

-- That another process serves is evidence of an outage.
local function step_over_gap(at)
  local last, server = lease_time_at(at), server_run()
  if last >= lease_clock.floor + A.lease_ms then
    lease_clock.floor = last + GRAIN_MS + 1
    lease_clock.lag = now - lease_clock.floor + math.floor(A.lease_ms / 4)
  else
    lease_clock.floor = last + math.floor(A.lease_ms / 6)
    lease_clock.lag = now - lease_clock.floor
  end
  store_clock('away_from', text_of(at), 'away_to', NOW)
  if server == call('HGET', cell('reaper'), 'server') then return end
  call('HSET', cell('reaper'), 'server', server, 'excused', text_of(lease_clock.floor))
end

-- A caller that got no answer within the last gap is evidence, too.
local function note_missed_answer()
  local gap, missed_at = call('HMGET', cell('reaper'), 'away_from', 'away_to'), now - A.missed_ms
  local from, to = tonumber(gap[1]), tonumber(gap[2])
  if from and to and from <= missed_at and missed_at <= to then
    call('HSET', cell('reaper'), 'excused', text_of(lease_clock.floor))
  end
end

-- Nothing where there is none, nor for what is far from any that this server can have seen.
local function moment_of(text)
  local moment = number(text)
  return moment > 0 and moment < now + A.retention_ms and moment or nil
end

-- Once in each script that reaps or gives a lease, before it does.
local function look()
  local found = call('HMGET', cell('reaper'), 'at', 'lag', 'floor')
  local at = moment_of(found[1])
  local passed = now - (at or now)
  lease_clock = {lag = number(found[2]), floor = moment_of(found[3]) or 0}
  if not at then
    store_clock('server', server_run())
  elseif passed > LONGEST_GAP_MS then
    step_over_gap(at)
  elseif passed < 0 then
    lease_clock.lag = lease_clock.lag + passed
    store_clock()
  elseif passed >= GRAIN_MS then
    call('HSET', cell('reaper'), 'at', NOW)
  end
  if A.missed_ms then note_missed_answer() end
end

-- When a lease ends that is given, or renewed, now.
local function lease_end() return text_of(lease_time() + A.lease_ms) end

-- Of a lease that was not renewed since the last outage ended. How its worker ended is not known.
local function is_excused(task, pool)
  lease_clock.excused = lease_clock.excused or number(call('HGET', cell('reaper'), 'excused'))
  return tonumber(call('ZSCORE', key('leases', pool), task.id)) < lease_clock.excused + A.lease_ms
end

local function lose(task, excused)
  local doom = not task.cancel and reason_above(task)
  if doom then
    stop(task.id, doom)
    task.cancel = doom
  end
  local lost = call('HINCRBY', task.key, 'lost', 1)
  if excused then task.excused = call('HINCRBY', task.key, 'excused', 1) end
  local in_vain = lost - tonumber(task.forgiven or 0) - tonumber(task.excused or 0)
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
local function due_in(name, time)
  local first = tonumber(call('ZRANGE', name, 0, 0, 'WITHSCORES')[2])
  if not first or first > time then
    next_in[name] = first or false
    return {}
  end
  next_in = {}  -- what is reaped brings new ends
  if work_left <= 0 then return {} end
  return call('ZRANGEBYSCORE', name, '-inf', text_of(time), 'LIMIT', 0, math.ceil(work_left))
end

local function reap_leases(pool)
  local touched = 0
  for _, id in ipairs(due_in(key('leases', pool), lease_time())) do
    if work_left <= 0 then break end
    spend(1)
    touched = touched + 1
    local task = load_task(id)
    if task and task.state == 'running' then
      lose(task, is_excused(task, pool))
    else
      call('ZREM', key('leases', pool), id)
    end
  end
  return touched
end

local function ends_by(task)
  if task.state ~= 'running' then return task.expires end
  return math.min(task.expires + A.grace_ms, tonumber(task.cancel_ends or math.huge))
end

local function reap_deadlines()
  local touched = 0
  for _, id in ipairs(due_in(cell('deadlines'), now)) do
    if work_left <= 0 then break end
    spend(1)
    touched = touched + 1
    local task = load_task(id)
    local doom = task and LIVE[task.state] and not task.cancel and now >= ends_by(task) and reason_above(task)
    if task and task.state == 'closing' then
      call('ZADD', cell('deadlines'), now + CLOSING_MS, id)
      stop(id, task.below or STOPPED_WITH_PARENT)
    elseif not task or not LIVE[task.state] then
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
  for _, id in ipairs(due_in(cell('timers'), now)) do
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

-- Milliseconds until there is something to reap in these pools (-1: nothing at all), or to do for `who` of the chores.
local function next_end(names, who, extra_ms)
  local soonest, ends = who and next_bite(who, extra_ms) or -1, {[cell('deadlines')] = 0, [cell('timers')] = 0}
  for _, pool in ipairs(names) do ends[key('leases', pool)] = lease_clock.lag end
  for name, lag in pairs(ends) do
    local first = next_in[name]
    if first == nil then first = tonumber(call('ZRANGE', name, 0, 0, 'WITHSCORES')[2]) end
    if first then
      local wait = math.max(first + lag - now, 0)
      if soonest < 0 or wait < soonest then soonest = wait end
    end
  end
  return soonest
end

