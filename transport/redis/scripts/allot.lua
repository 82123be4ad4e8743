-- Say what a tenant gets beside others. Who was held back by a lower cap goes back in line.

call('HSET', cell('tenants'), A.tenant, A.weight .. ' ' .. (A.cap or ''))
release(held_lanes(A.tenant))
return 1
