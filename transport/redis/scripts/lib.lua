-- In front of every script, first of up to four parts: keys, the server's time, records, what is told to whom.
-- (`script.py` lists the parts, puts the script into a function, and calls `settle` after it.) A script takes the cell's
-- prefix as its only key and one msgpack blob of arguments.

-- All users' scripts share one Lua state. In older servers (docs/redis.md, Users) any of them can change how texts behave
-- in everybody's, so that a worker's function would run with an orchestrator's rights. Whoever comes first here locks that.
do
  local texts = getmetatable('')
  if texts ~= 'locked' then
    local is_right = false
    if type(texts) == 'table' and pcall(rawset, texts, '__metatable', 'locked') then
      is_right = getmetatable('') == 'locked'  -- else it is a fake, in front of the one that counts
      for name in next, texts do
        if name ~= '__metatable' then rawset(texts, name, nil) end
      end
      rawset(texts, '__index', string)
    elseif type(texts) == 'table' then  -- nobody can change it
      is_right = rawget(texts, '__index') == string and next(texts, next(texts)) == nil
    end
    if not is_right then error('somebody has changed what texts are in the scripts of this server', 0) end
  end
end

local PREFIX = KEYS[1]
local A = cmsgpack.unpack(ARGV[1])

-- Whoever has a worker's password may put anything into these keys, and must not stop what others do, nor for longer than
-- the password is good. So what a command cannot work with goes, and the command is done: a key of another kind, a stream
-- that takes no more entries, a count that is none.
local function call(command, name, ...)
  local answer = redis.pcall(command, name, ...)
  local why = type(answer) == 'table' and answer.err
  if not why then return answer end
  if string.find(why, 'WRONGTYPE') or command == 'XADD' and (string.find(why, 'top item') or string.find(why, 'exhausted')) then
    redis.call('DEL', name)
  elseif command == 'HINCRBY' then
    redis.call('HDEL', name, (...))
  end
  return redis.call(command, name, ...)  -- who raises an error does it here
end

-- A count or a moment; 0 for none, and for what is no such number.
local function number(text)
  local found = tonumber(text or 0) or 0
  return found > -2^53 and found < 2^53 and found or 0
end

local now = A.now
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000 + math.floor(clock[2] / 1000)
end

-- As the texts that commands want: each number that a script hands over is printed by the server, with 17 digits.
local texts = {}

local function text_of(number)
  texts[number] = texts[number] or string.format('%.0f', number)
  return texts[number]
end

local NOW, MAX_ENTRIES, RETENTION_MS = text_of(now), text_of(A.max_entries), text_of(A.retention_ms)

-- A task that is `closing` is neither alive nor ended: its end is decided, and told after the ends of those below it.
local LIVE = {pending = true, running = true, waiting = true}
-- All that a move may have to know; hot scripts name less.
local FIELDS = {'trace', 'pool', 'flow', 'state', 'attempt', 'worker', 'expires', 'lost', 'forgiven', 'excused', 'parent', 'root',
                'cancel', 'cancel_ends', 'spent', 'reserved', 'started', 'accepted', 'session', 'checkpoint', 'mail', 'has_children',
                'holds', 'awaited_by', 'end_status', 'end_result', 'ended_by', 'below'}
-- How long an answer is kept for a caller who lost it on its way: longer than anyone repeats a call.
local REPLY_MS = 60000

local function key(name, id) return PREFIX .. ':' .. name .. ':' .. id end
local function cell(name) return PREFIX .. ':' .. name end
local function count(name) call('HINCRBY', cell('counters'), name, 1) end

-- `call` with any number of values: Lua hands over about 8,000 at once.
local function call_many(command, name, values)
  for at = 1, #values, 1000 do call(command, name, unpack(values, at, math.min(at + 999, #values))) end
end

-- What was asked for and is missing is false. Whoever may write here can spoil a record; it is treated as none, so that it
-- stops nobody else.
local function is_spoilt(task, attempt, expires)
  return task.state == false or task.pool == false or task.flow == false
    or task.attempt ~= nil and not attempt or task.expires ~= nil and not expires
end

-- Made with room for what it will hold: growing cost more than the rest of loading.
local function record(id, name)
  return {id = id, key = name, trace = nil, state = nil, attempt = nil, worker = nil, pool = nil, flow = nil, expires = nil,
          parent = nil, root = nil, cancel = nil, reserved = nil, session = nil, checkpoint = nil, mail = nil}
end

-- `fields` for those who need few of them, or others; `trace` always leads. What is missing is false.
local function load_task(id, fields)
  fields = fields or FIELDS
  local name = key('task', id)
  local values = call('HMGET', name, unpack(fields))
  if not values[1] then return nil end
  local task = record(id, name)
  for i = 1, #fields do task[fields[i]] = values[i] end
  local attempt, expires = tonumber(task.attempt), tonumber(task.expires)
  if is_spoilt(task, attempt, expires) then return nil end
  task.attempt, task.expires = attempt, expires
  return task
end

-- The framing of envelope/codec.py, unsigned: version 1, then [bin32 body, '', bin8 of nothing].
local heads = {}

local function framed(bytes)
  local size = #bytes
  heads[size] = heads[size] or '\1\147\198' .. struct.pack('>I4', size)
  return heads[size] .. bytes .. '\160\196\0'
end

local function message(body) return framed(cmsgpack.pack(body)) end

local streams = {}

local function append(trace, bytes)
  streams[trace] = streams[trace] or key('events', trace)
  return call('XADD', streams[trace], 'MAXLEN', '~', MAX_ENTRIES, '*', 'm', bytes)
end

-- The queue's own progress stands outside the worker's count: its seq is -1. A claim tells the same to each task, so
-- what is equal in these messages is packed once: half of a claim's time went into packing them.
local pack, packed, packs, tails = cmsgpack.pack, nil, {}, {}

local function packed_once(value)
  packs[value] = packs[value] or pack(value)
  return packs[value]
end

local function tail_of(state, reason, worker)
  local name = state .. reason .. worker
  if not tails[name] then
    local event = {kind = 'state', state = state, reason = reason, worker = worker}
    tails[name] = pack('status') .. pack(state) .. pack('events') .. pack({event})
  end
  return tails[name]
end

local function tell(task, state, reason, worker)
  if not packed then
    local head = '\136' .. pack('kind') .. pack('progress') .. pack('seq') .. pack(-1) .. pack('at_ms') .. pack(now)
    packed = {trace = head .. pack('trace_id'), task = pack('task_id'), attempt = pack('attempt')}
  end
  return append(task.trace, framed(packed.trace .. packed_once(task.trace) .. packed.task .. pack(task.id)
                                   .. packed.attempt .. packed_once(task.attempt) .. tail_of(state, reason, worker)))
end

local function ring(pool)
  if call('EXISTS', key('bell', pool)) == 0 then call('LPUSH', key('bell', pool), 1) end
end

local function wake(worker)
  local name = key('wake', worker)
  if call('EXISTS', name) == 0 then call('LPUSH', name, 1) end
  call('EXPIRE', name, 60)
end

-- A call that was repeated because its answer was lost is not done again: `A.once` is who calls, and a serial number.
local function recall()
  local kept = A.once and call('GET', key('reply', A.once[1]))
  if not kept then return nil end
  kept = cmsgpack.unpack(kept)
  if kept[1] == A.once[2] then return kept[2] end
end

local function remember(answer)
  if A.once then
    call('SET', key('reply', A.once[1]), cmsgpack.pack({A.once[2], answer}), 'PX', REPLY_MS)
  end
  return answer
end

-- The server refuses a script when its memory is full, but it checks that at the first write alone. So a script that begins
-- with a deletion (of nothing) may write on, and a write that changes nothing tells whether it is full. No key has this name.
local NOTHING = cell('nothing')

local function is_full()
  local answer = redis.pcall('SET', NOTHING, 1, 'XX')
  return type(answer) == 'table' and answer.err ~= nil and string.find(answer.err, '^%-?OOM') ~= nil
end

local function use_reserve() call('DEL', NOTHING) end

-- How many traces a script trims that finds the memory full: some hundred kilobytes.
local TRIMMED_AT_ONCE = 20

-- Drops the events of up to `count` traces that ended longest ago; their results stay. Returns how many traces there were.
local function trim(count)
  local traces = call('ZRANGE', cell('ended'), 0, count - 1)
  if #traces > 0 then call('ZREM', cell('ended'), unpack(traces)) end
  for _, trace in ipairs(traces) do redis.pcall('XTRIM', key('events', trace), 'MAXLEN', 0) end  -- one may be spoilt
  return #traces
end

-- The work that this script may still do, counted in tasks that it moves (about 50 us each). The rest becomes a chore.
local work_left = A.tasks_per_script
-- What a look at one task costs beside a move.
local LOOK = 0.1

local function spend(work) work_left = work_left - work end

-- Whether there are chores; nil: nobody has looked. `dooms`: what `reason_above` has found, until another chore is begun.
local has_chores
local dooms = {}

-- Chores stand by tenant, and tenants take turns: one who stops a thousand trees delays nobody else's.
local function queue_chore(tenant, name)
  if call('RPUSH', key('chores', tenant), name) == 1 then call('RPUSH', cell('chores'), tenant) end
end

-- A chore is work that was decided in one step and is too long for one script. It is data: whoever comes does a bite of
-- it (`do_chores`). A chore that is begun once more begins at its start. Returns the name of its key.
local function begin_chore(kind, id, tenant)
  local name = kind .. '.' .. id
  local chore = key('chore', name)
  if not call('HGET', chore, 'open') then
    call('DEL', chore)
    queue_chore(tenant, name)
    for _, pool in ipairs(call('SMEMBERS', cell('pools'))) do ring(pool) end
  end
  call('HSET', chore, 'open', 1)
  call('HDEL', chore, 'cursor')
  has_chores, dooms = true, {}
  return chore
end

-- A place in a set or a hash, to be kept for another script. It holds in this process of the server alone: after a
-- restart or a failover the set has another order, and is looked through from its start.
local this_run

local function server_run()
  local told = this_run or redis.pcall('INFO', 'server')
  this_run = this_run or type(told) == 'string' and string.match(told, 'run_id:(%w+)') or '?'
  return this_run
end

local function kept_cursor(cursor) return cursor .. '@' .. server_run() end

local function cursor_of(kept)
  local cursor, run = string.match(kept or '', '^(%w+)@(.+)$')
  return run == server_run() and cursor or '0'
end

-- WAIT, which follows the script, is about the last write of its connection. A repeated script may have found all done, so
-- that it wrote nothing: then it would wait for nothing. On a full server this alone is refused, which hurts nobody.
local function confirm()
  if A.replicas then redis.pcall('HSET', cell('meta'), 'confirmed_by', A.replicas) end
end

-- After every script; each part may have its own.
local function settle() end
