-- Publish a worker's card, and forget those that are overdue. Its pool is known from now on.

for _, worker in ipairs(call('ZRANGEBYSCORE', cell('workers'), '-inf', now, 'LIMIT', 0, 100)) do
  call('ZREM', cell('workers'), worker)
  call('HDEL', cell('cards'), worker)
end
call('ZADD', cell('workers'), now + A.ttl_ms, A.worker)
call('HSET', cell('cards'), A.worker, A.card)
call('SADD', cell('pools'), A.pool)
return 1
