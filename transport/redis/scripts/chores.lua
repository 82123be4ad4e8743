-- One bite of the chores (`do_chores`). Returns the milliseconds until the next one (-1: there are no chores), and of the
-- stopping of a task: is it under way, how many it stopped until now.

local next_ms = do_chores()
local found = call('HMGET', key('chore', 'stop.' .. A.task), 'open', 'alive')
return {next_ms, found[1] and 1 or 0, tonumber(found[2] or 0)}
