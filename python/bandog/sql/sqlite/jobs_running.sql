-- Jobs that are running, in order of admission, after an order number.
SELECT job.number, job.job_id
FROM bandog_lease AS lease
CROSS JOIN bandog_job AS job ON job.number = lease.number
WHERE lease.number > ?1
    AND (?2 IS NULL OR job.queue = ?2)
    AND (?3 IS NULL OR job.lane = ?3)
ORDER BY lease.number
LIMIT ?4
