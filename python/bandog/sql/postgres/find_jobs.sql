-- The order numbers of jobs.
SELECT job.job_id, job.number
FROM unnest($1) AS named (job_id)
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.job_id = named.job_id LIMIT 1) AS job
