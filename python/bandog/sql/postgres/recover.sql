-- Lock claims whose lease has expired, longest ago first, and read what deciding about them takes. Rows that others hold
-- locked are skipped: they are being settled, or recovered by somebody else. Reads as many rows as jobs are running.
SELECT
    lease.number, job.job_id, lease.worker, lease.attempts, lease.given_back, lease.recoveries,
    lease.cancel_requested_at IS NOT NULL AS cancel_requested, lease.cancel_reason, lease.last_token, lease.last_report,
    job.max_attempts, job.max_recoveries
FROM (
    SELECT lease.* FROM bandog.lease AS lease
    WHERE lease.lease_until <= (SELECT bandog.clock())
    ORDER BY lease.lease_until, lease.number
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS lease
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.number = lease.number LIMIT 1) AS job
ORDER BY lease.lease_until, lease.number
