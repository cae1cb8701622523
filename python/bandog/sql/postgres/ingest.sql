-- Admit jobs: $1 to $13 hold one value per job, or none at all for a column that is null throughout; a job with neither a
-- moment ($12) nor a delay ($13) is due now. $14 says whether the caller has counted the bounded lanes.
-- Order numbers follow the order of the call, the writes that of job_id, so that two calls cannot lock each other out.
-- Not returned, and not stored: a job whose id is taken (ingest_existing.sql tells duplicate from conflict), and, where they
-- were not counted, the first one of a bounded lane and all after it, so that none overtakes it.
WITH clock AS MATERIALIZED (
    SELECT bandog.clock() AS now
), bounded AS MATERIALIZED (
    SELECT pg_catalog.min(asked.place) AS place
    FROM unnest($2::pg_catalog.text[], $3::pg_catalog.text[]) WITH ORDINALITY AS asked (queue, lane, place)
    WHERE EXISTS (
        SELECT 1
        FROM bandog.lane_limit AS bound
        WHERE bound.queue OPERATOR(pg_catalog.=) asked.queue AND bound.lane OPERATOR(pg_catalog.=) asked.lane
    )
), numbered AS MATERIALIZED (
    SELECT bandog.next_number() AS number, new.*
    FROM unnest(
        $1::pg_catalog.text[], $2::pg_catalog.text[], $3::pg_catalog.text[], $4::pg_catalog.int4[],
        $5::pg_catalog.text[], $6::pg_catalog.int8[], $7::pg_catalog.int8[], $8::pg_catalog.int8[],
        $9::pg_catalog.int8[], $10::pg_catalog.float8[], $11::pg_catalog.int8[], $12::pg_catalog.timestamptz[],
        $13::pg_catalog.float8[]
    ) WITH ORDINALITY AS new (
        job_id, queue, lane, priority, payload, max_attempts, max_recoveries,
        backoff_base, backoff_cap, backoff_jitter, timeout, due_at, due_after, place
    )
    WHERE $14::pg_catalog.bool
        OR coalesce(new.place OPERATOR(pg_catalog.<) (SELECT bounded.place FROM bounded), true)
), admitted AS (
    INSERT INTO bandog.job (
        number, job_id, queue, lane, priority, payload, max_attempts, max_recoveries,
        backoff_base, backoff_cap, backoff_jitter, timeout, admitted_at
    )
    SELECT
        new.number, new.job_id, new.queue, new.lane, new.priority, new.payload::pg_catalog.json,
        new.max_attempts, new.max_recoveries, new.backoff_base, new.backoff_cap, new.backoff_jitter, new.timeout,
        clock.now
    FROM numbered AS new CROSS JOIN clock
    ORDER BY new.job_id COLLATE pg_catalog."C", new.place
    ON CONFLICT (job_id) DO NOTHING
    RETURNING number
), stored AS MATERIALIZED (
    SELECT
        new.number, new.queue, new.lane, new.priority, new.place,
        coalesce(
            new.due_at,
            clock.now OPERATOR(pg_catalog.+) (new.due_after OPERATOR(pg_catalog.*) interval '1 microsecond'),
            clock.now
        ) AS available_at,
        coalesce(new.due_at OPERATOR(pg_catalog.<) clock.now, false) AS late,
        clock.now AS admitted_at
    FROM admitted
    JOIN numbered AS new ON new.number OPERATOR(pg_catalog.=) admitted.number
    CROSS JOIN clock
), queued AS (
    INSERT INTO bandog.ready (
        number, queue, lane, priority, available_at, late, attempts, given_back, recoveries
    )
    SELECT number, queue, lane, priority, available_at, late, 0, 0, 0
    FROM stored
)
SELECT place, number, available_at, admitted_at
FROM stored
