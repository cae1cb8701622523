-- The highest priority below ?2 of the queued jobs of one queue: one index seek. Claiming goes from priority to priority,
-- so that a million jobs of a higher priority which are not due yet cost nothing.
SELECT priority
FROM bandog_ready
WHERE queue = ?1 AND priority < ?2
ORDER BY queue, priority DESC
LIMIT 1
