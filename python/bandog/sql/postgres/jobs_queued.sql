-- Jobs that are queued, in order of admission, after an order number.
SELECT job.number, job.job_id
FROM bandog.ready AS ready
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.number = ready.number LIMIT 1) AS job
WHERE ready.number > $1
    AND ($2 IS NULL OR job.queue = $2)
    AND ($3 IS NULL OR job.lane = $3)
ORDER BY ready.number
LIMIT $4
