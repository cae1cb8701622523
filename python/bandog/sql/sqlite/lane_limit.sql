-- How many jobs of a lane may be queued.
SELECT most
FROM bandog_lane_limit
WHERE queue = ?1 AND lane = ?2
