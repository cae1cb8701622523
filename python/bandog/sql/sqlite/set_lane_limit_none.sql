-- A lane is bounded no longer.
DELETE FROM bandog_lane_limit
WHERE queue = ?1 AND lane = ?2
