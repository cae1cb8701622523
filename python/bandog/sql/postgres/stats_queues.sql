-- How many jobs of each queue are queued, how many of them are due, both counted up to a bound, and since when the first
-- one is. One index range per queue, and one per queue and priority.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT bandog.clock() AS now
), queue_walk (queue) AS (
    SELECT pg_catalog.text '' COLLATE pg_catalog."C"
    UNION ALL
    SELECT (SELECT ready.queue FROM bandog.ready AS ready WHERE ready.queue > walk.queue ORDER BY ready.queue LIMIT 1)
    FROM queue_walk AS walk
    WHERE walk.queue IS NOT NULL
), priority_walk (queue, priority) AS (
    SELECT queue_walk.queue, 2147483648 FROM queue_walk WHERE queue_walk.queue > ''
    UNION ALL
    SELECT walk.queue, (
        SELECT ready.priority FROM bandog.ready AS ready
        WHERE ready.queue = walk.queue AND ready.priority < walk.priority
        ORDER BY ready.priority DESC LIMIT 1
    )::bigint
    FROM priority_walk AS walk
    WHERE walk.priority IS NOT NULL
)
SELECT queue.queue, queued.size AS queued, due.size AS due, due.since AS oldest_due
FROM queue_walk AS queue
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(*) AS size
    FROM (SELECT 1 FROM bandog.ready AS ready WHERE ready.queue = queue.queue LIMIT $1) AS counted
) AS queued
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(*) AS size, pg_catalog.min(counted.available_at) AS since
    FROM (
        SELECT due.available_at
        FROM priority_walk AS walk
        CROSS JOIN LATERAL (
            SELECT ready.available_at FROM bandog.ready AS ready
            WHERE ready.queue = walk.queue AND ready.priority = walk.priority
                AND ready.available_at <= (SELECT clock.now FROM clock)
            ORDER BY ready.available_at LIMIT $1
        ) AS due
        WHERE walk.queue = queue.queue AND walk.priority <= 2147483647
    ) AS counted
) AS due
WHERE queue.queue > ''
