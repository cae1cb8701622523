-- What putting a job back needs to know of it: its place in the order, and its budgets.
SELECT queue, lane, priority, max_attempts, max_recoveries, backoff_base, backoff_cap, backoff_jitter
FROM bandog_job
WHERE number = ?1
