-- Jobs that are running, in order of admission, after an order number.
SELECT job.number, job.job_id
FROM bandog.lease AS lease
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.number = lease.number LIMIT 1) AS job
WHERE lease.number > $1
    AND ($2 IS NULL OR job.queue = $2)
    AND ($3 IS NULL OR job.lane = $3)
ORDER BY lease.number
LIMIT $4
