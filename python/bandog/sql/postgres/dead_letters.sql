-- Jobs of one outcome, in the order in which they were settled, after a place in that order.
SELECT outcome.settled_at, outcome.number, job.job_id
FROM bandog.outcome AS outcome
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.number = outcome.number LIMIT 1) AS job
WHERE outcome.kind = $1 AND outcome.kind <> 'completed'
    AND outcome.settled_at >= $2 AND (outcome.settled_at > $2 OR outcome.number > $3)
    AND ($4 IS NULL OR job.queue = $4)
ORDER BY outcome.settled_at, outcome.number
LIMIT $5
