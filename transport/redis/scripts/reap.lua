-- End or requeue what its worker or its time has left behind, in every pool, and do a bite of the chores. Returns how many
-- tasks were touched, and the milliseconds until the next bite (-1: there are no chores).

look()
local touched = 0
for _, pool in ipairs(call('SMEMBERS', cell('pools'))) do touched = touched + reap_leases(pool) end
touched = touched + reap_deadlines() + reap_timers()
return {touched, do_chores()}
