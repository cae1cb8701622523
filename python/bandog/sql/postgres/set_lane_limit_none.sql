-- A lane is bounded no longer.
DELETE FROM bandog.lane_limit
WHERE queue = $1 AND lane = $2
