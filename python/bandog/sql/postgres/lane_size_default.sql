-- How many jobs of the default lane are queued, counted up to a bound.
-- In the order of an index, so that the planner uses that rather than start reading the table, whatever comes first there.
SELECT pg_catalog.count(*) AS size
FROM (
    SELECT 1
    FROM bandog.ready
    WHERE queue OPERATOR(pg_catalog.=) $1::pg_catalog.text AND lane OPERATOR(pg_catalog.=) 'default'
    ORDER BY priority DESC, available_at, number
    LIMIT $2::pg_catalog.int8
) AS counted
