-- Record a decision whose deed is done elsewhere.

if recall() then return 1 end
note(A.actor, A.action, A.subject, A.tenant, A.details)
return remember(1)
