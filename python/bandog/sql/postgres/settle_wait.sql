-- Lock claims, waiting for those who hold them locked, and read what deciding about them takes. For the caller's own
-- transaction, which no others wait in; the engine's skips such rows: settle_claim.sql.
-- Whether a claim holds is asked once its row is locked, since its lease may have ended meanwhile; without OFFSET 0 the
-- planner would ask before.
SELECT
    lease.number, lease.lease_token, lease.worker, lease.attempts, lease.given_back, lease.recoveries,
    lease.cancel_requested_at IS NOT NULL AS cancel_requested, lease.cancel_reason,
    job.max_attempts, job.max_recoveries, job.backoff_base, job.backoff_cap, job.backoff_jitter
FROM (
    SELECT * FROM unnest($1::pg_catalog.int8[], $2::pg_catalog.text[]) AS report (number, lease_token)
    ORDER BY report.number
) AS report
CROSS JOIN LATERAL (
    SELECT lease.* FROM bandog.lease AS lease
    WHERE lease.number OPERATOR(pg_catalog.=) report.number
        AND lease.lease_token OPERATOR(pg_catalog.=) report.lease_token
    OFFSET 0
    FOR UPDATE
) AS lease
CROSS JOIN LATERAL (
    SELECT job.* FROM bandog.job AS job WHERE job.number OPERATOR(pg_catalog.=) lease.number LIMIT 1
) AS job
WHERE lease.lease_until OPERATOR(pg_catalog.>) bandog.clock()
