-- How many jobs of a queue are queued, counted up to a bound.
SELECT count(*) AS size
FROM (SELECT 1 FROM bandog_ready WHERE queue = ?1 LIMIT ?2)
