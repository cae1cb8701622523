-- The order number of a job.
SELECT number
FROM bandog_job
WHERE job_id = ?1
