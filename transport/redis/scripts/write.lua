-- Writes of workers, in the order given, each under its lease: kind, task, attempt, worker, data and one thing more.
-- Returns, as msgpack (the server looks into each table of an answer seven times before it sends it), one outcome each:
-- {0} when fenced, {-1, why} when it failed (a record that somebody has spoilt: the others must not suffer for it), else
-- {1, ...} with, by kind,
--   emit, reserve: the trace's money, then its tenant's {1, spent, cap (-1: none), reserved, spent, cap, reserved};
--     reserve: {1} alone when one of the caps forbids it
--   checkpoint: the same money, then the prompts that no checkpoint holds · inbox: those alone
--   park: {1, 1} parked, {1, 0} nothing to wait for · finish: {1, 1} ended, {1, 0} queued again
--   give_back, retry, hold: {1}
-- When the server's memory is full, what lets a task end or leave its worker is done all the same; the rest is not, and
-- {-2, n} says so: `n` traces were trimmed, and if there were any it may be asked for again.

-- What an operation must know of its task; all there is when it does not say.
local HELD = {'trace', 'state', 'attempt', 'worker', 'flow'}
local END = {'trace', 'state', 'attempt', 'worker', 'pool', 'flow', 'parent', 'root', 'reserved', 'session',
             'checkpoint', 'mail', 'has_children', 'cancel', 'expires', 'holds', 'awaited_by'}
local NEEDS = {emit = HELD, reserve = HELD, checkpoint = {'trace', 'state', 'attempt', 'worker', 'session', 'flow'}, inbox = {'trace', 'state',
               'attempt', 'worker', 'session'}, hold = {'trace', 'state', 'attempt', 'worker', 'flow', 'holds'}, finish = END}

local function held(kind, id, attempt, worker)
  local task = load_task(id, NEEDS[kind])
  if task and task.state == 'running' and task.attempt == attempt and task.worker == worker then return task end
end

-- The money of traces and of tenants, by the names of their keys: read once, for many tasks of one trace write together.
local moneys = {}

local function money_in(name)
  if not moneys[name] then
    local found = call('HMGET', name, 'spent', 'cap', 'reserved')
    moneys[name] = {spent = number(found[1]), cap = number(found[2] or -1), reserved = number(found[3])}
  end
  return moneys[name]
end

-- Whose money a task spends.
local function purses_of(task) return key('trace', task.trace), key('money', tenant_of(task.flow)) end

local function forget_moneys(task)
  for _, name in ipairs({purses_of(task)}) do moneys[name] = nil end
end

-- `amount` more of one kind of the money of a task, its trace and its tenant.
local function book(task, kind, amount)
  for _, name in ipairs({purses_of(task)}) do
    local money = money_in(name)
    money[kind] = money[kind] + amount
    call('HINCRBY', name, kind, amount)
  end
  return call('HINCRBY', task.key, kind, amount)
end

local function ledger(task)
  local trace, tenant = purses_of(task)
  local own, all = money_in(trace), money_in(tenant)
  return {1, own.spent, own.cap, own.reserved, all.spent, all.cap, all.reserved}
end

local function allows(money, amount) return money.cap < 0 or money.spent + money.reserved + amount <= money.cap end

-- A task that would go back in line, but has been cancelled or is over its deadline, ends instead.
local function ends_instead(task)
  forget_moneys(task)  -- whatever leaves takes its reservations with it
  if task.cancel then
    finish_by_queue(task, 'cancelled', task.cancel)
  elseif now >= task.expires then
    finish_by_queue(task, 'expired', TOO_LATE)
  else
    return false
  end
  return true
end

local DO = {}

local function emit(task, message, charge, released)
  append(task.trace, message)
  if charge > 0 then book(task, 'spent', charge) end
  local reserved = released > 0 and tonumber(call('HGET', task.key, 'reserved') or 0) or 0
  if reserved > 0 then book(task, 'reserved', -math.min(released, reserved)) end
end

function DO.emit(task, message, amounts)
  if amounts == 0 then
    append(task.trace, message)
    return ledger(task)
  end
  emit(task, message, amounts[1], amounts[2])
  -- leases that were lost before a task got on speak no longer for poison: see `lose`
  if amounts[3] then call('HSET', task.key, 'forgiven', call('HGET', task.key, 'lost') or 0, 'excused', 0) end
  return ledger(task)
end

function DO.reserve(task, _, amount)
  local trace, tenant = purses_of(task)
  if not allows(money_in(trace), amount) or not allows(money_in(tenant), amount) then return {1} end
  book(task, 'reserved', amount)
  return ledger(task)
end

local function prompts(task)
  return call('LRANGE', key('inbox', session_of(task)), 0, 999)
end

function DO.checkpoint(task, message, more)
  local blob, heard, charge, released = unpack(more)
  if message ~= '' then emit(task, message, charge, released) end
  call('HSET', task.key, 'checkpoint', blob)
  call('HSET', key('session', session_of(task)), 'checkpoint', blob, 'holder', task.id, 'tenant', tenant_of(task.flow))
  if heard > 0 then call('LTRIM', key('inbox', session_of(task)), heard, -1) end
  local outcome = ledger(task)
  for _, prompt in ipairs(prompts(task)) do outcome[#outcome + 1] = prompt end
  return outcome
end

function DO.inbox(task)
  return {1, unpack(prompts(task))}
end

-- An ask for more of a tenant's money is answered by another cap, one for more of a trace's by a higher one: whatever
-- stands among the answers, who would go on for it finds no money.
local function is_open(task, ask)
  if string.sub(ask, 1, #TENANTS_CAP) == TENANTS_CAP then
    local cap = call('HGET', key('money', tenant_of(task.flow)), 'cap')
    return cap and ask == TENANTS_CAP .. cap
  end
  local traces = tonumber(string.match(ask, '^' .. TRACES_CAP .. '(%d+)$'))
  if not traces then return call('HEXISTS', key('answers', task.id), ask) == 0 end
  return traces >= tonumber(call('HGET', key('trace', task.trace), 'cap') or 0)
end

local function ask_for_money(task, names)
  for _, name in ipairs(names) do
    local list, ask = money_list(task, name)
    if list then call('HSET', list, task.id, ask) end
    if list == key('capped', task.trace) then call('PEXPIRE', list, A.answers_ms) end
  end
end

local function missing(task, wait)
  local names = {}
  local apart = not wait.first and #wait.children > 0 and call('HGET', task.key, 'background') or ''
  for _, child in ipairs(wait.children) do
    if call('SISMEMBER', key('children', task.id), child) == 1 and not string.find(apart, child, 1, true) then
      names[#names + 1] = child
    end
  end
  local children = #names
  for _, ask in ipairs(wait.asks) do
    if is_open(task, ask) then names[#names + 1] = ASK .. ask end
  end
  if wait.first and (#names < #wait.children + #wait.asks or call('EXISTS', key('inbox', session_of(task))) == 1) then
    return {}
  end
  local asks = #names - children
  return names, 'waits for ' .. children .. ' children, ' .. asks .. ' asks', asks
end

local function begins_to_ask(task, since_ms)
  call('ZADD', cell('asking'), since_ms, task.id)
  call('ZADD', key('asking', tenant_of(task.flow)), since_ms, task.id)
end

local function tell_people(task, asks)
  call('XADD', cell('asked'), 'MAXLEN', '~', 10000, '*', 'task', task.id, 'asks', table.concat(asks, ' '))
end

function DO.park(task, _, wait)
  local names, reason, asks = missing(task, wait)
  if #names == 0 then return {1, 0} end
  if ends_instead(task) then return {1, 1} end
  leave_flight(task)
  call('HSET', task.key, 'state', 'waiting', 'worker', '')
  ask_for_money(task, names)
  if wait.first then names[#names + 1] = FIRST end
  call_many('SADD', key('awaits', task.id), names)
  if wait['until'] then call('ZADD', cell('timers'), wait['until'], task.id) end
  if asks > 0 then begins_to_ask(task, NOW) else call('ZADD', key('parked', task.pool), NOW, task.id) end
  if #wait.asks > 0 then tell_people(task, wait.asks) end
  tell(task, 'waiting', reason, '')
  return {1, 1}
end

-- It waits, and keeps its lease and its slot: to all that looks at leases it runs.
function DO.hold(task, _, asks)
  local since_ms = call('ZSCORE', cell('asking'), task.id) or NOW
  waits_no_longer(task)
  local names, reason = missing(task, {children = {}, asks = asks})
  if #names > 0 then
    ask_for_money(task, names)
    call_many('SADD', key('awaits', task.id), names)
    begins_to_ask(task, since_ms)
    tell_people(task, asks)
    if not task.holds then
      call('HSET', task.key, 'holds', 1)
      tell(task, 'waiting', reason, task.worker)
    end
  elseif task.holds then
    goes_on(task)
  end
  return {1}
end

-- Queued again once for what came in: a handler that listens to nobody must come to its end.
local function has_mail(task)
  if task.mail ~= 'new' or task.cancel or now >= task.expires then return false end
  call('HSET', task.key, 'mail', 'told')
  return call('EXISTS', key('inbox', session_of(task))) == 1
end

-- `more`: the status, or with it what was not told before and its charge ('': nothing), and the code and the reason of a
-- dead letter. What is reserved is free again with the end.
function DO.finish(task, message, more)
  local status, last, charge, code, why = more, '', 0, nil, nil
  if type(more) == 'table' then status, last, charge, code, why = unpack(more) end
  if last ~= '' then emit(task, last, charge, 0) end
  forget_moneys(task)
  if status == 'completed' and has_mail(task) then
    requeue(task, 'a prompt came in')
    return {1, 0}
  end
  if code then bury(task, code, why) end
  close_tree(task, {status, message, task.worker})
  return {1, 1}
end

function DO.give_back(task)
  if not ends_instead(task) then requeue(task, 'its worker gave it back') end
  return {1}
end

function DO.retry(task, reason, delay_ms)
  if ends_instead(task) then return {1} end
  count('retries')
  leave_flight(task)
  call('HSET', task.key, 'state', 'pending', 'worker', '')
  call('HINCRBY', task.key, 'retries', 1)
  call('ZADD', cell('timers'), now + delay_ms, task.id)
  tell(task, 'pending', reason, '')
  return {1}
end

local ALLOWED_WHEN_FULL = {finish = true, give_back = true, retry = true, park = true, hold = true, inbox = true}
local full, trimmed = false, 0

local function make_room()
  full = is_full()
  if not full then return end
  use_reserve()
  trimmed = trim(TRIMMED_AT_ONCE)
end

-- A finish may come again, from a worker that could not know of the first one: it is no other's.
local function repeated(kind, id, attempt, worker)
  if kind ~= 'finish' then return false end
  local last = call('HMGET', key('task', id), 'attempt', 'ended_by')
  return last[2] == worker and tonumber(last[1]) == attempt
end

-- One flat list, because a table for each operation costs more than what is in it.
local function write_all(ops)
  local outcomes = {}
  for at = 1, #ops, 6 do
    local kind, id, attempt, worker = ops[at], ops[at + 1], ops[at + 2], ops[at + 3]
    local task, outcome = held(kind, id, attempt, worker), {1, 1}
    if task and full and not ALLOWED_WHEN_FULL[kind] then
      outcome = {-2, trimmed}
    elseif task then
      local done, answer = pcall(DO[kind], task, ops[at + 4], ops[at + 5])
      outcome = done and answer or {-1, type(answer) == 'table' and answer.err or tostring(answer)}
    elseif not repeated(kind, id, attempt, worker) then
      count('fenced_writes')
      outcome = {0}
    end
    outcomes[#outcomes + 1] = outcome
  end
  return outcomes
end

local known = recall()
if known then return known end
make_room()
return remember(cmsgpack.pack(write_all(A.operations)))
