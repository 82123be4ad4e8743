-- End or requeue what its worker or its time has left behind, in every pool. How many tasks were touched.

look()
local touched = 0
for _, pool in ipairs(call('SMEMBERS', cell('pools'))) do touched = touched + reap_leases(pool) end
return touched + reap_deadlines() + reap_timers()
