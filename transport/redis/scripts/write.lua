-- Writes of workers, in the order given, each under its lease. Returns one outcome each: {1, ...} or {0} when fenced.

local function held(op)
  local task = load_task(op.task)
  if task and task.state == 'running' and task.attempt == op.attempt and task.worker == op.worker then return task end
end

local function ledger(trace)
  local money = call('HMGET', key('trace', trace), 'spent', 'cap')
  return {1, tonumber(money[1] or 0), tonumber(money[2] or -1)}
end

local DO = {}

function DO.emit(task, op)
  append(task.trace, op.data)
  if op.charge > 0 then
    call('HINCRBY', key('trace', task.trace), 'spent', op.charge)
    call('HINCRBY', key('task', task.id), 'spent', op.charge)
  end
  return ledger(task.trace)
end

function DO.checkpoint(task, op)
  call('HSET', key('task', task.id), 'checkpoint', op.data)
  return {1}
end

function DO.finish(task, op)
  stop_children(task)
  call('HSET', key('task', task.id), 'ended_by', op.worker)
  close(task, op.status, op.data)
  return {1}
end

function DO.give_back(task, op)
  if task.cancel then
    finish_by_queue(task, 'cancelled', task.cancel)
  else
    requeue(task, 'its worker gave it back')
  end
  return {1}
end

-- The answer to a finish may be lost on its way: the same one again is no other's.
local function repeated(op)
  if op.kind ~= 'finish' then return false end
  local last = call('HMGET', key('task', op.task), 'attempt', 'ended_by')
  return last[2] == op.worker and tonumber(last[1]) == op.attempt
end

local outcomes = {}
for i, op in ipairs(A.operations) do
  local task = held(op)
  if task then
    outcomes[i] = DO[op.kind](task, op)
  elseif repeated(op) then
    outcomes[i] = {1}
  else
    count('fenced_writes')
    outcomes[i] = {0}
  end
end
return outcomes
