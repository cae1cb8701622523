-- How many jobs of the default lane are queued, counted up to a bound.
SELECT pg_catalog.count(*) AS size
FROM (SELECT 1 FROM bandog.ready WHERE queue = $1 AND lane = 'default' LIMIT $2) AS counted
