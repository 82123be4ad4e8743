-- Mark a session as archived, or as not. Returns whether it is known.

local name = key('session', A.session)
if call('EXISTS', name) == 0 then return 0 end
if A.archived then call('HSET', name, 'archived', NOW) else call('HDEL', name, 'archived') end
return 1
