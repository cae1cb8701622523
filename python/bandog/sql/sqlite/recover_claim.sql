-- One claim that is known to be lost, and what of its job the decision needs.
SELECT
    lease.number, job.job_id, lease.worker, lease.attempts, lease.given_back, lease.recoveries,
    lease.cancel_requested_at, lease.cancel_reason, lease.last_token, lease.last_report,
    job.queue, job.lane, job.priority, job.max_attempts, job.max_recoveries, lease.lease_token
FROM bandog_lease AS lease
CROSS JOIN bandog_job AS job ON job.number = lease.number
WHERE lease.number = ?1 AND lease.lease_token = ?2
