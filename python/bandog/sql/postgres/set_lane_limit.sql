-- Bound a lane.
INSERT INTO bandog.lane_limit (queue, lane, most)
VALUES ($1, $2, $3)
ON CONFLICT (queue, lane) DO UPDATE SET most = excluded.most
