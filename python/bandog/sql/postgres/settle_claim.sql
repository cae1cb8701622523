-- Lock claims that still hold, and read what deciding about them takes. Rows that others hold locked are skipped.
SELECT
    lease.number, lease.lease_token, lease.worker, lease.attempts, lease.given_back, lease.recoveries,
    lease.cancel_requested_at IS NOT NULL AS cancel_requested, lease.cancel_reason,
    job.max_attempts, job.max_recoveries, job.backoff_base, job.backoff_cap, job.backoff_jitter
FROM (SELECT * FROM unnest($1, $2) AS report (number, lease_token) ORDER BY report.number) AS report
CROSS JOIN LATERAL (
    SELECT lease.* FROM bandog.lease AS lease
    WHERE lease.number = report.number AND lease.lease_token = report.lease_token
        AND lease.lease_until > bandog.clock()
    FOR UPDATE SKIP LOCKED
) AS lease
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.number = lease.number LIMIT 1) AS job
