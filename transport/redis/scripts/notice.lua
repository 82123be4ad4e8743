-- What is told to others outside of the fleet (`transport/notices.py`); `A.what` says which step.

local STREAMS = {'done', 'dead', 'asked'}
local FIELDS_OF_NOTICE = {'hook', 'event', 'body', 'at', 'tries', 'error'}
local marks, due, dead = cell('noticemarks'), cell('noticedue'), cell('noticedead')
local DO = {}

local function moment_in(id)
  local moment, place = string.match(id or '', '^(%d+)%-(%d+)$')
  return place and #place < 16 and number(moment) or 0
end

-- A mark is where an entry of its stream stood, or at a moment that has been.
local function is_mark(mark, stream)
  local at = moment_in(mark)
  if at <= now then return at > 0 end
  local last = call('XREVRANGE', cell(stream), '+', '-', 'COUNT', 1)[1]
  return last and moment_in(last[1]) >= at
end

-- Nobody is told of what was before there was anybody to tell, nor before somebody has spoilt a mark.
function DO.begin()
  for _, name in ipairs(STREAMS) do
    if not is_mark(call('HGET', marks, name), name) then call('HSET', marks, name, NOW .. '-0') end
  end
  return call('HMGET', marks, unpack(STREAMS))
end

function DO.take()
  for i, mark in ipairs(call('HMGET', marks, unpack(STREAMS))) do
    if mark ~= A.before[i] then return 0 end
  end
  for _, notice in ipairs(A.notices) do
    local id, hook, event, body, at = unpack(notice)
    if call('EXISTS', key('notice', id)) == 0 then
      call('HSET', key('notice', id), 'hook', hook, 'event', event, 'body', body, 'at', at, 'tries', 0)
      call('ZADD', due, now, id)
    end
  end
  for i, name in ipairs(STREAMS) do call('HSET', marks, name, A.after[i]) end
  return 1
end

function DO.due()
  local found = {}
  for _, id in ipairs(call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, A.limit)) do
    if call('EXISTS', key('notice', id)) == 1 then
      call('HINCRBY', key('notice', id), 'tries', 1)
      call('ZADD', due, now + A.sending_ms, id)
      found[#found + 1] = {id, unpack(call('HMGET', key('notice', id), unpack(FIELDS_OF_NOTICE)))}
    else
      call('ZREM', due, id)
    end
  end
  local first = tonumber(call('ZRANGE', due, 0, 0, 'WITHSCORES')[2])
  return {first and math.max(0, first - now) or -1, found}
end

-- Its id is kept for a while: what is noticed once more (a task that waits again) is not told again.
function DO.sent()
  call('ZREM', due, A.id)
  call('ZREM', dead, A.id)
  call('HDEL', key('notice', A.id), 'body', 'error')
  call('PEXPIRE', key('notice', A.id), A.retention_ms)
  return 1
end

-- By the last who began: it may have arrived by another try meanwhile, or be under way.
function DO.failed()
  if call('HGET', key('notice', A.id), 'tries') ~= A.tries or not call('ZSCORE', due, A.id) then return 0 end
  call('HSET', key('notice', A.id), 'error', A.why)
  if A.again_ms then
    call('ZADD', due, now + A.again_ms, A.id)
    return 1
  end
  call('ZREM', due, A.id)
  call('ZADD', dead, now, A.id)
  call('PEXPIRE', key('notice', A.id), A.retention_ms)
  for _, id in ipairs(call('ZRANGEBYSCORE', dead, '-inf', now - A.retention_ms, 'LIMIT', 0, 100)) do call('ZREM', dead, id) end
  return 1
end

function DO.retry()
  local count = 0
  for _, id in ipairs(A.ids) do
    if call('ZREM', dead, id) == 1 and call('PERSIST', key('notice', id)) == 1 then
      call('HSET', key('notice', id), 'tries', 0)
      call('ZADD', due, now, id)
      count = count + 1
    end
  end
  return count
end

return DO[A.what]()
