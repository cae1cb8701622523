-- Completed jobs that were settled by a time, the longest settled first.
SELECT settled_at, number
FROM bandog_outcome
WHERE kind = 'completed' AND settled_at <= ?1
ORDER BY settled_at, number
LIMIT ?2
