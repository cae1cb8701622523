-- The next jobs of one queue and priority that are due, in the order of claiming: one index range, read up to the limit.
SELECT
    number, available_at, attempts, given_back, recoveries, last_token, last_report, last_error
FROM bandog_ready
WHERE queue = ?1 AND priority = ?2 AND available_at <= ?3
ORDER BY available_at, number
LIMIT ?4
