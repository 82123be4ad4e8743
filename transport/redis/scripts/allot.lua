-- Say what a tenant gets beside others. Who was held back by a lower cap goes back in line.

call('HSET', cell('tenants'), A.tenant, A.weight .. ' ' .. (A.cap or ''))
local running = tonumber(call('HGET', cell('flight'), A.tenant) or 0)
release('tenant', A.tenant, (A.cap or math.huge) - running)
return 1
