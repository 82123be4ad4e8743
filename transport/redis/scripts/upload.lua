-- Counts what a tenant's callers store; `transport/uploads.py` tells how, `memory/uploads.py` does the same.
-- {0}: counted. {1 in the hour or 2 in all, bytes that are left, ms until it fits} else.

local COUNT = key('uploads', A.tenant)
local HOUR_MS = 3600000
local hour = math.floor(now / HOUR_MS)

local told = call('HGETALL', COUNT)
local hours, size_of, in_all, over = {}, {}, 0, {}
for i = 1, #told, 2 do
  local when, size = tonumber(told[i]), tonumber(told[i + 1])
  if when and size and when > hour - A.kept_hours then
    hours[#hours + 1], size_of[when], in_all = when, size, in_all + size
  else
    over[#over + 1] = told[i]
  end
end
call_many('HDEL', COUNT, over)

if A.all_bytes > 0 and in_all + A.size > A.all_bytes then
  local excess, last = in_all + A.size - A.all_bytes, hour
  table.sort(hours)
  for _, when in ipairs(hours) do
    excess, last = excess - size_of[when], when
    if excess <= 0 then break end
  end
  return {2, math.max(0, A.all_bytes - in_all), (last + A.kept_hours) * HOUR_MS - now}
end
local in_hour = size_of[hour] or 0
if A.hour_bytes > 0 and in_hour + A.size > A.hour_bytes then
  return {1, math.max(0, A.hour_bytes - in_hour), (hour + 1) * HOUR_MS - now}
end
call('HSET', COUNT, text_of(hour), text_of(in_hour + A.size))
call('PEXPIRE', COUNT, text_of(A.kept_hours * HOUR_MS))
return {0}
