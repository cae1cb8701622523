-- When the next queued job is due, or the next running claim expires unless it is renewed. One index seek per queue and
-- priority; of the lease table as many rows as jobs are running. $1 to $5: as in claim.sql. $6: only jobs that are not due
-- yet, for a worker that has just claimed those that are: one that somebody holds locked must not keep it busy.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT bandog.clock() AS now
), known AS MATERIALIZED (
    SELECT level.queue COLLATE pg_catalog."C" AS queue, level.priority, level.since
    FROM unnest($1, $2, $3) AS level (queue, priority, since)
), queue_walk (queue) AS (
    SELECT pg_catalog.text '' COLLATE pg_catalog."C" WHERE $5
    UNION ALL
    SELECT
        CASE WHEN ahead.queue IS NULL THEN (
            SELECT ready.queue FROM bandog.ready AS ready
            WHERE ready.queue > walk.queue
            ORDER BY ready.queue LIMIT 1
        ) ELSE coalesce((
            SELECT ready.queue FROM bandog.ready AS ready
            WHERE ready.queue > walk.queue AND ready.queue < ahead.queue
            ORDER BY ready.queue LIMIT 1
        ), ahead.queue) END
    FROM queue_walk AS walk
    CROSS JOIN LATERAL (
        SELECT pg_catalog.min(known.queue) AS queue FROM known WHERE known.queue > walk.queue
    ) AS ahead
    WHERE walk.queue IS NOT NULL
), priority_walk (queue, priority) AS (
    SELECT asked.queue, 2147483648
    FROM (
        SELECT named.queue COLLATE pg_catalog."C" AS queue FROM unnest($4) AS named (queue)
        UNION
        SELECT queue_walk.queue FROM queue_walk WHERE queue_walk.queue > ''
    ) AS asked
    UNION ALL
    SELECT walk.queue, coalesce((
        SELECT ready.priority FROM bandog.ready AS ready
        WHERE ready.queue = walk.queue AND ready.priority < walk.priority
            AND ready.priority > coalesce(ahead.priority, -2147483649)
        ORDER BY ready.priority DESC LIMIT 1
    ), ahead.priority)::bigint
    FROM priority_walk AS walk
    CROSS JOIN LATERAL (
        SELECT pg_catalog.max(known.priority) AS priority FROM known
        WHERE known.queue = walk.queue AND known.priority < walk.priority
    ) AS ahead
    WHERE walk.priority IS NOT NULL
)
SELECT clock.now, least(
    (SELECT pg_catalog.min(lease.lease_until) FROM bandog.lease AS lease),
    (
        SELECT pg_catalog.min(due.available_at)
        FROM priority_walk AS walk
        LEFT JOIN known ON known.queue = walk.queue AND known.priority = walk.priority
        CROSS JOIN LATERAL (
            (SELECT ready.available_at FROM bandog.ready AS ready
            WHERE ready.queue = walk.queue AND ready.priority = walk.priority
                AND ready.available_at >= coalesce(known.since, '-infinity')
                AND ready.available_at > CASE WHEN $6 THEN (SELECT clock.now FROM clock) ELSE '-infinity' END
            ORDER BY ready.available_at LIMIT 1)
            UNION ALL
            (SELECT ready.available_at FROM bandog.ready AS ready
            WHERE ready.queue = walk.queue AND ready.priority = walk.priority
                AND ready.available_at < known.since AND ready.late
                AND ready.available_at > CASE WHEN $6 THEN (SELECT clock.now FROM clock) ELSE '-infinity' END
            ORDER BY ready.available_at LIMIT 1)
        ) AS due
        WHERE walk.priority <= 2147483647
    )
) AS next
FROM clock
