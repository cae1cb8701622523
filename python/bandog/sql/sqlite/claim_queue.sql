-- The next queue after ?1 that has a queued job: one index seek, however many jobs the queues hold.
SELECT queue
FROM bandog_ready
WHERE queue > ?1
ORDER BY queue
LIMIT 1
