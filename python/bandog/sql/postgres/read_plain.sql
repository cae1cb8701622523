-- Everything that is known of jobs (read.sql) in plain values: JSON as its text, times as whole microseconds since 1970.
-- What else a connection makes of JSON and of times is its owner's to set.
SELECT
    job.number, job.job_id, job.queue, job.lane, job.priority, job.payload::pg_catalog.text AS payload,
    job.max_attempts, job.max_recoveries,
    (pg_catalog.extract('epoch', job.admitted_at) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8
        AS admitted_at,
    (pg_catalog.extract('epoch', ready.available_at) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8
        AS available_at,
    coalesce(ready.attempts, lease.attempts, outcome.attempts) AS attempts,
    coalesce(ready.given_back, lease.given_back, outcome.given_back) AS given_back,
    coalesce(ready.recoveries, lease.recoveries, outcome.recoveries) AS recoveries,
    coalesce(lease.worker, outcome.worker) AS worker,
    (pg_catalog.extract('epoch', lease.claimed_at) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8
        AS claimed_at,
    (pg_catalog.extract('epoch', lease.lease_until) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8
        AS lease_until,
    (pg_catalog.extract('epoch', lease.cancel_requested_at) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8
        AS cancel_requested_at,
    lease.cancel_reason,
    outcome.kind,
    (pg_catalog.extract('epoch', outcome.settled_at) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8
        AS settled_at,
    outcome.result::pg_catalog.text AS result,
    coalesce(ready.last_error, lease.last_error, outcome.error) AS error,
    outcome.evidence::pg_catalog.text AS evidence,
    ready.number IS NOT NULL AS is_queued,
    lease.number IS NOT NULL AS is_running
FROM pg_catalog.unnest($1::pg_catalog.text[]) AS named (job_id)
CROSS JOIN LATERAL (
    SELECT job.* FROM bandog.job AS job WHERE job.job_id OPERATOR(pg_catalog.=) named.job_id LIMIT 1
) AS job
LEFT JOIN LATERAL (
    SELECT ready.* FROM bandog.ready AS ready WHERE ready.number OPERATOR(pg_catalog.=) job.number LIMIT 1
) AS ready ON true
LEFT JOIN LATERAL (
    SELECT lease.* FROM bandog.lease AS lease WHERE lease.number OPERATOR(pg_catalog.=) job.number LIMIT 1
) AS lease ON true
LEFT JOIN LATERAL (
    SELECT outcome.* FROM bandog.outcome AS outcome WHERE outcome.number OPERATOR(pg_catalog.=) job.number LIMIT 1
) AS outcome ON true
