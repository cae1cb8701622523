-- Claim the next due jobs: $6 of them, under the token $7, by worker $8, each for $9 microseconds.
--
-- The index holds one range per queue and priority. $1, $2 and $3 name the ranges that the caller remembers, and where the
-- last claim from each ended: rows before that are dead, and reading over them is what makes a claim slow while somebody
-- holds a snapshot. Ranges that it does not remember are looked for between those that it does, so that no dead row of a
-- remembered one is read for that. $4 names the queues, or $5 says that all are meant.
--
-- Nothing is claimed once $10 has come: then a lease may have expired, and lost claims are recovered first.
-- Some candidates more than needed are read ($11), to take the place of those that others hold locked.
-- Always returns a row, for the time; number is NULL in it where nothing was claimed.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT now, now >= $10 AS recovery_is_due FROM (SELECT bandog.clock() AS now) AS read
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
), level AS MATERIALIZED (
    SELECT walk.queue, walk.priority::integer AS priority, coalesce(known.since, '-infinity') AS since
    FROM priority_walk AS walk
    LEFT JOIN known ON known.queue = walk.queue AND known.priority = walk.priority
    WHERE walk.priority <= 2147483647
), chosen AS MATERIALIZED (
    SELECT found.place
    FROM (SELECT DISTINCT level.priority FROM level ORDER BY level.priority DESC) AS step
    CROSS JOIN LATERAL (
        SELECT locked.place
        FROM (
            SELECT due.place
            FROM level CROSS JOIN LATERAL (
                (SELECT ready.available_at, ready.number, ready.ctid AS place FROM bandog.ready AS ready
                WHERE ready.queue = level.queue AND ready.priority = level.priority
                    AND ready.available_at >= level.since AND ready.available_at <= (SELECT clock.now FROM clock)
                ORDER BY ready.available_at, ready.number LIMIT $11)
                UNION ALL
                (SELECT ready.available_at, ready.number, ready.ctid AS place FROM bandog.ready AS ready
                WHERE ready.queue = level.queue AND ready.priority = level.priority
                    AND ready.available_at < level.since AND ready.late
                ORDER BY ready.available_at, ready.number LIMIT $11)
            ) AS due
            WHERE level.priority = step.priority
            ORDER BY due.available_at, due.number
        ) AS candidate
        CROSS JOIN LATERAL (
            SELECT ready.ctid AS place FROM bandog.ready AS ready WHERE ready.ctid = candidate.place
            FOR UPDATE SKIP LOCKED
        ) AS locked
    ) AS found
    LIMIT (SELECT CASE WHEN clock.recovery_is_due THEN 0 ELSE $6 END FROM clock)
), taken AS (
    DELETE FROM bandog.ready WHERE ctid = ANY (ARRAY(SELECT chosen.place FROM chosen))
    RETURNING *
), held AS (
    INSERT INTO bandog.lease (
        number, lease_token, lease_until, worker, claimed_at,
        attempts, given_back, recoveries, last_token, last_report, last_error
    )
    SELECT
        taken.number, $7, clock.now + $9 * interval '1 microsecond', $8, clock.now,
        taken.attempts + 1, taken.given_back, taken.recoveries, taken.last_token, taken.last_report, taken.last_error
    FROM taken CROSS JOIN clock
)
SELECT clock.now, clock.recovery_is_due, claimed.*
FROM clock
LEFT JOIN LATERAL (
    SELECT
        taken.number, taken.available_at, taken.late,
        taken.attempts + 1 AS attempts, taken.given_back, taken.recoveries, taken.last_error,
        job.job_id, job.queue, job.lane, job.priority, job.payload,
        job.max_attempts, job.max_recoveries, job.timeout, job.admitted_at
    FROM taken
    CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.number = taken.number LIMIT 1) AS job
) AS claimed ON true
ORDER BY claimed.priority DESC, claimed.available_at, claimed.number
