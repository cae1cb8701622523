-- The oldest running claim that a liveness probe stands for, after a place in that order.
SELECT lease.claimed_at, lease.number, lease.lease_token, job.job_id
FROM bandog_lease AS lease
CROSS JOIN bandog_job AS job ON job.number = lease.number
WHERE lease.lease_until IS NULL
    AND lease.claimed_at >= ?1 AND (lease.claimed_at > ?1 OR lease.number > ?2)
ORDER BY lease.claimed_at, lease.number
LIMIT 1
