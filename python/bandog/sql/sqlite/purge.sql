-- Jobs of another outcome that were settled by a time, the longest settled first.
SELECT settled_at, number
FROM bandog_outcome
WHERE kind = ?1 AND kind <> 'completed' AND settled_at <= ?2
ORDER BY settled_at, number
LIMIT ?3
