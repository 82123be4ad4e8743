-- Say what a tenant gets beside others. Who was held back by a lower cap goes back in line.

local allotted = table.concat({A.weight, A.cap or '', A.queued or '', A.tree or ''}, ' ')
if call('HGET', cell('tenants'), A.tenant) ~= allotted then
  note(A.by, 'allot', A.tenant, A.tenant,
       {weight = A.weight, max_running = A.cap or 'no cap', max_queued = A.queued, max_tree = A.tree})
end
call('HSET', cell('tenants'), A.tenant, allotted)
release(held_lanes(A.tenant))
return 1
