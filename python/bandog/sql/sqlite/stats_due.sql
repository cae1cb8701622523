-- How many jobs of one queue and priority are due, counted up to a bound, and since when the first one is.
SELECT count(*) AS size, min(available_at) AS since
FROM (
    SELECT available_at
    FROM bandog_ready
    WHERE queue = ?1 AND priority = ?2 AND available_at <= ?3
    ORDER BY available_at
    LIMIT ?4
)
