-- Ask for the cancellation of running jobs. The first request stands.
-- Each finds its reason by its place: in a join, the planner may compare every request with every claim.
UPDATE bandog.lease
SET cancel_requested_at = bandog.clock(), cancel_reason = ($2::text[])[pg_catalog.array_position($1, number)]
WHERE number = ANY ($1) AND cancel_requested_at IS NULL
