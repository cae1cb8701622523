-- Lock one claim that is known to be lost, and read what deciding about it takes. Nothing where it was settled or recovered
-- meanwhile.
SELECT
    lease.number, job.job_id, lease.worker, lease.attempts, lease.given_back, lease.recoveries,
    lease.cancel_requested_at IS NOT NULL AS cancel_requested, lease.cancel_reason, lease.last_token, lease.last_report,
    job.max_attempts, job.max_recoveries
FROM (
    SELECT lease.* FROM bandog.lease AS lease
    WHERE lease.number = $1 AND lease.lease_token = $2
    FOR UPDATE
) AS lease
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.number = lease.number LIMIT 1) AS job
