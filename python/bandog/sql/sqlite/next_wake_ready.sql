-- When the first queued job of one queue and priority is due: one index seek.
SELECT available_at
FROM bandog_ready
WHERE queue = ?1 AND priority = ?2
ORDER BY available_at
LIMIT 1
