-- What was claimed under a token: the answer to a claim whose reply was lost. Reads as many rows as jobs are running.
SELECT
    lease.number, lease.claimed_at, lease.attempts, lease.given_back, lease.recoveries, lease.last_error,
    job.job_id, job.queue, job.lane, job.priority, job.payload,
    job.max_attempts, job.max_recoveries, job.timeout, job.admitted_at
FROM bandog.lease AS lease
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.number = lease.number LIMIT 1) AS job
WHERE lease.lease_token = $1
ORDER BY job.priority DESC, lease.number
