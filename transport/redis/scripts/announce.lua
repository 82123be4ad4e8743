-- Publish a worker's card when one is given, forget those that are overdue, return all that are left.

for _, worker in ipairs(call('ZRANGEBYSCORE', cell('workers'), '-inf', now)) do
  call('ZREM', cell('workers'), worker)
  call('HDEL', cell('cards'), worker)
end
if A.card then
  call('ZADD', cell('workers'), now + A.ttl_ms, A.worker)
  call('HSET', cell('cards'), A.worker, A.card)
end
return call('HVALS', cell('cards'))
