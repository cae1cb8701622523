-- When the first job of one queue and priority is due that is not due yet: one index seek. A worker sleeps until then.
SELECT available_at
FROM bandog_ready
WHERE queue = ?1 AND priority = ?2 AND available_at > ?3
ORDER BY available_at
LIMIT 1
