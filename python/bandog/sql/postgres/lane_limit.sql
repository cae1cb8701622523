-- How many jobs of some lanes may be queued, and how many are, counted up to that. The row is locked until the end of the
-- transaction, so that two calls cannot fill the last place both.
SELECT bound.queue, bound.lane, bound.most
FROM (
    SELECT DISTINCT asked.queue COLLATE pg_catalog."C" AS queue, asked.lane COLLATE pg_catalog."C" AS lane
    FROM unnest($1::pg_catalog.text[], $2::pg_catalog.text[]) AS asked (queue, lane)
    ORDER BY 1, 2
) AS asked
CROSS JOIN LATERAL (
    SELECT * FROM bandog.lane_limit AS bound
    WHERE bound.queue OPERATOR(pg_catalog.=) asked.queue AND bound.lane OPERATOR(pg_catalog.=) asked.lane
    FOR UPDATE
) AS bound
