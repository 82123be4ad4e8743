-- Writes of workers, in the order given, each under its lease: kind, task, attempt, worker, data and one thing more.
-- Returns one outcome each: {1, ...} or {0} when fenced.

-- What an operation must know of its task; all there is when it does not say.
local HELD = {'trace', 'state', 'attempt', 'worker'}
local NEEDS = {emit = HELD, checkpoint = HELD, finish = {'trace', 'state', 'attempt', 'worker', 'pool', 'parent', 'root'}}

local function held(kind, id, attempt, worker)
  local task = load_task(id, NEEDS[kind])
  if task and task.state == 'running' and task.attempt == attempt and task.worker == worker then return task end
end

local function ledger(trace)
  local money = call('HMGET', key('trace', trace), 'spent', 'cap')
  return {1, tonumber(money[1] or 0), tonumber(money[2] or -1)}
end

local DO = {}

function DO.emit(task, message, charge)
  append(task.trace, message)
  if charge > 0 then
    call('HINCRBY', key('trace', task.trace), 'spent', charge)
    call('HINCRBY', key('task', task.id), 'spent', charge)
  end
  return ledger(task.trace)
end

function DO.checkpoint(task, blob)
  call('HSET', key('task', task.id), 'checkpoint', blob)
  return {1}
end

function DO.finish(task, message, status)
  stop_children(task)
  close(task, status, message, task.worker)
  return {1}
end

function DO.give_back(task)
  if task.cancel then
    finish_by_queue(task, 'cancelled', task.cancel)
  else
    requeue(task, 'its worker gave it back')
  end
  return {1}
end

-- The answer to a finish may be lost on its way: the same one again is no other's.
local function repeated(kind, id, attempt, worker)
  if kind ~= 'finish' then return false end
  local last = call('HMGET', key('task', id), 'attempt', 'ended_by')
  return last[2] == worker and tonumber(last[1]) == attempt
end

-- One flat list, because a table for each operation costs more than what is in it.
local outcomes, ops = {}, A.operations
for at = 1, #ops, 6 do
  local kind, id, attempt, worker = ops[at], ops[at + 1], ops[at + 2], ops[at + 3]
  local task, outcome = held(kind, id, attempt, worker), {1}
  if task then
    outcome = DO[kind](task, ops[at + 4], ops[at + 5])
  elseif not repeated(kind, id, attempt, worker) then
    count('fenced_writes')
    outcome = {0}
  end
  outcomes[#outcomes + 1] = outcome
end
return outcomes
