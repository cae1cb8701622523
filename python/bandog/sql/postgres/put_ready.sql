-- Jobs become queued: put back, recovered or requeued. Their place in the order is that of the job. $2 counts from now.
INSERT INTO bandog.ready (
    number, queue, lane, priority, available_at, late,
    attempts, given_back, recoveries, last_token, last_report, last_error
)
SELECT
    put.number, job.queue, job.lane, job.priority,
    clock.now OPERATOR(pg_catalog.+) (put.due_after OPERATOR(pg_catalog.*) interval '1 microsecond'), false,
    put.attempts, put.given_back, put.recoveries, put.last_token, put.last_report, put.last_error
FROM unnest(
    $1::pg_catalog.int8[], $2::pg_catalog.float8[], $3::pg_catalog.int4[], $4::pg_catalog.int4[],
    $5::pg_catalog.int4[], $6::pg_catalog.text[], $7::pg_catalog.text[], $8::pg_catalog.text[]
) AS put (
    number, due_after, attempts, given_back, recoveries, last_token, last_report, last_error
)
CROSS JOIN LATERAL (
    SELECT job.* FROM bandog.job AS job WHERE job.number OPERATOR(pg_catalog.=) put.number LIMIT 1
) AS job
CROSS JOIN (SELECT bandog.clock() AS now OFFSET 0) AS clock
RETURNING number, available_at
