-- Everything that is known of jobs. Exactly one of ready, lease and outcome has a job's row.
SELECT
    job.number, job.job_id, job.queue, job.lane, job.priority, job.payload,
    job.max_attempts, job.max_recoveries, job.admitted_at,
    ready.available_at,
    coalesce(ready.attempts, lease.attempts, outcome.attempts) AS attempts,
    coalesce(ready.given_back, lease.given_back, outcome.given_back) AS given_back,
    coalesce(ready.recoveries, lease.recoveries, outcome.recoveries) AS recoveries,
    coalesce(lease.worker, outcome.worker) AS worker,
    lease.claimed_at, lease.lease_until, lease.cancel_requested_at, lease.cancel_reason,
    outcome.kind, outcome.settled_at, outcome.result,
    coalesce(ready.last_error, lease.last_error, outcome.error) AS error,
    outcome.evidence,
    ready.number IS NOT NULL AS is_queued,
    lease.number IS NOT NULL AS is_running
FROM unnest($1) AS named (job_id)
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.job_id = named.job_id LIMIT 1) AS job
LEFT JOIN LATERAL (SELECT ready.* FROM bandog.ready AS ready WHERE ready.number = job.number LIMIT 1) AS ready ON true
LEFT JOIN LATERAL (SELECT lease.* FROM bandog.lease AS lease WHERE lease.number = job.number LIMIT 1) AS lease ON true
LEFT JOIN LATERAL (
    SELECT outcome.* FROM bandog.outcome AS outcome WHERE outcome.number = job.number LIMIT 1
) AS outcome ON true
