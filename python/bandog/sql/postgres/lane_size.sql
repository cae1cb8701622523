-- How many jobs of a lane are queued, counted up to a bound. For the default lane: lane_size_default.sql.
SELECT pg_catalog.count(*) AS size
FROM (
    SELECT 1
    FROM bandog.ready
    WHERE queue OPERATOR(pg_catalog.=) $1::pg_catalog.text
        AND lane OPERATOR(pg_catalog.=) $2::pg_catalog.text
        AND lane OPERATOR(pg_catalog.<>) 'default'
    LIMIT $3::pg_catalog.int8
) AS counted
