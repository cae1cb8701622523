-- Jobs that are settled, of one outcome or of any, in order of admission, after an order number.
SELECT job.number, job.job_id
FROM bandog_outcome AS outcome
CROSS JOIN bandog_job AS job ON job.number = outcome.number
WHERE outcome.number > ?1
    AND (?5 IS NULL OR outcome.kind = ?5)
    AND (?2 IS NULL OR job.queue = ?2)
    AND (?3 IS NULL OR job.lane = ?3)
ORDER BY outcome.number
LIMIT ?4
