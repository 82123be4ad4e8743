-- The limiter of one model and key; `transport/rates.py` tells how it works, `memory/rates.py` does the same.
-- ask: {1, now, per minute} when the call may go; {0, come again in ms, turn in ms, place} else. leave, slow_down: nothing.

local RATE, LINE = key('rate', A.key), key('rateline', A.key)
local DUE, ENDS = key('ratedue', A.key), key('rateends', A.key)
local TICK = 0.001
local STATE = {'top', 'used', 'cut_at', 'requests_until', 'tokens_until', 'mean_tokens', 'virtual', 'was_served',
               'recent', 'recent_at'}

local s = {}
for i, value in ipairs(call('HMGET', RATE, unpack(STATE))) do s[STATE[i]] = tonumber(value) or 0 end

-- A moment in ms has 13 digits before its point; Lua by itself writes 14.
local function exact(number) return string.format('%.17g', number) end

local function store()
  local fields = {}
  for _, name in ipairs(STATE) do
    fields[#fields + 1] = name
    fields[#fields + 1] = exact(s[name])
  end
  call('HSET', RATE, unpack(fields))
  local kept_ms = math.ceil(math.max(now, s.requests_until, s.tokens_until) - now + A.idle_ms)
  for _, name in ipairs({RATE, LINE, DUE, ENDS}) do call('PEXPIRE', name, kept_ms) end
end

local function scale()
  if s.top == 0 then return 1 end
  return math.min(math.max(s.top * (1 + (1 - A.cut) * (s.used / A.regain_ms - 1) ^ 3), A.least), 1)
end

-- Calls within the last `measured_ms`, about.
local function recent() return s.recent * math.exp((s.recent_at - now) / A.measured_ms) end

local function forget(ticket)
  call('ZREM', LINE, ticket)
  call('ZREM', DUE, ticket)
end

local function cost_ms(per_minute)
  return per_minute > 0 and (60000 + A.burst_ms) / per_minute or 0
end

local function drop_late()
  for _, ticket in ipairs(call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, 100)) do forget(ticket) end
end

-- Until a meter that is busy so long has room for this call and for those before it.
local function wait_of(busy_until, before_ms)
  return math.max(busy_until, now) + before_ms - now - A.burst_ms
end

local function ask()
  drop_late()
  local speed = scale()
  local per_request, per_token = cost_ms(A.requests * speed), cost_ms(A.tokens * speed)
  s.tokens_until = s.tokens_until + A.owed * per_token
  if A.served then s.was_served = 1 end
  local is_new, place, before = A.place == 0, A.place, nil
  if is_new then
    place = math.max(s.virtual + TICK, tonumber(call('ZSCORE', ENDS, A.trace) or nil) or 0)
    before = call('ZCOUNT', LINE, '-inf', exact(place))
  else
    forget(A.ticket)
    before = call('ZCOUNT', LINE, '-inf', '(' .. exact(place))
  end
  local own_tokens = A.wants * per_token
  local most = math.max(per_request, own_tokens)
  local wait = -A.burst_ms
  if A.requests > 0 then wait = math.max(wait, wait_of(s.requests_until, before * per_request)) end
  if A.tokens > 0 then wait = math.max(wait, wait_of(s.tokens_until, before * s.mean_tokens * per_token)) end
  if is_new then
    s.mean_tokens = s.mean_tokens + (A.wants - s.mean_tokens) / 16
    call('ZADD', ENDS, exact(place + most), A.trace)
  end
  if wait > 0 then
    local told = math.min(math.max(math.ceil(wait), is_new and 0 or A.again_ms), A.told_ms)
    call('ZADD', LINE, exact(place), A.ticket)
    call('ZADD', DUE, now + told + A.late_ms, A.ticket)
    store()
    return {0, told, math.ceil(wait), exact(place)}
  end
  if not is_new then
    s.used = s.used + math.max(math.min(most, A.per_call_ms), most / A.slowest)
  end
  s.requests_until = math.max(s.requests_until, now) + per_request
  s.tokens_until = math.max(s.tokens_until, now) + own_tokens
  s.recent, s.recent_at = recent() + 1, now
  s.virtual = math.max(s.virtual, place)
  for _, trace in ipairs(call('ZRANGEBYSCORE', ENDS, '-inf', exact(s.virtual), 'LIMIT', 0, 100)) do call('ZREM', ENDS, trace) end
  store()
  return {1, now, exact((A.requests > 0 and A.requests or A.tokens) * speed)}
end

-- Beyond the old top, the limit lies in between.
local function cut()
  local speed = scale()
  if s.cut_at == 0 and A.unknown then
    speed = math.min(speed, math.max(recent() * 60000 / A.measured_ms, A.measured_least) / A.requests)
  end
  if s.cut_at > 0 and s.used < A.regain_ms / 4 then
    s.top = speed * A.deep_cut / A.cut
  else
    s.top = (speed + math.min(s.top > 0 and s.top or speed, speed)) / 2
  end
  s.used, s.cut_at, s.was_served = 0, now, 0
end

local function slow_down()
  local is_news = A.permit_at > s.cut_at and now >= s.cut_at + A.apart_ms
  if is_news and (s.was_served > 0 or s.cut_at == 0) then cut() end
  local free_at = now + A.pause_ms + A.burst_ms
  s.requests_until = math.max(s.requests_until, free_at)
  s.tokens_until = math.max(s.tokens_until, free_at)
  store()
end

local function leave() forget(A.ticket) end

return ({ask = ask, leave = leave, slow_down = slow_down})[A.what]()
