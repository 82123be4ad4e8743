-- Say what a tenant gets beside others. Who was held back by a lower cap goes back in line.

local allotted = A.weight .. ' ' .. (A.cap or '')
if call('HGET', cell('tenants'), A.tenant) ~= allotted then
  note(A.by, 'allot', A.tenant, A.tenant, {weight = A.weight, max_running = A.cap or 'no cap'})
end
call('HSET', cell('tenants'), A.tenant, allotted)
release(held_lanes(A.tenant))
return 1
