-- Jobs that are settled, of one outcome or of any, in order of admission, after an order number.
SELECT job.number, job.job_id
FROM bandog.outcome AS outcome
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.number = outcome.number LIMIT 1) AS job
WHERE outcome.number > $1
    AND ($5 IS NULL OR outcome.kind = $5)
    AND ($2 IS NULL OR job.queue = $2)
    AND ($3 IS NULL OR job.lane = $3)
ORDER BY outcome.number
LIMIT $4
