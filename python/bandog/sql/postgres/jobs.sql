-- Jobs in any state, in order of admission, after an order number.
SELECT job.number, job.job_id
FROM bandog.job AS job
WHERE job.number > $1
    AND ($2 IS NULL OR job.queue = $2)
    AND ($3 IS NULL OR job.lane = $3)
ORDER BY job.number
LIMIT $4
