-- Everything that is known of a job. Exactly one of ready, lease and outcome has its row.
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
FROM bandog_job AS job
LEFT JOIN bandog_ready AS ready ON ready.number = job.number
LEFT JOIN bandog_lease AS lease ON lease.number = job.number
LEFT JOIN bandog_outcome AS outcome ON outcome.number = job.number
WHERE job.job_id = ?1
