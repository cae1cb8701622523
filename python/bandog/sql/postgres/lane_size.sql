-- How many jobs of a lane are queued, counted up to a bound. For the default lane: lane_size_default.sql.
SELECT pg_catalog.count(*) AS size
FROM (SELECT 1 FROM bandog.ready WHERE queue = $1 AND lane = $2 AND lane <> 'default' LIMIT $3) AS counted
