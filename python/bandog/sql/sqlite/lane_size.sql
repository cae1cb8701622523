-- How many jobs of a lane are queued, counted up to a bound. For the default lane: lane_size_default.sql.
SELECT count(*) AS size
FROM (SELECT 1 FROM bandog_ready WHERE queue = ?1 AND lane = ?2 AND lane <> 'default' LIMIT ?3)
