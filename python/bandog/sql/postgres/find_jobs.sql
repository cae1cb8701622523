-- The order numbers of jobs.
SELECT job.job_id, job.number
FROM pg_catalog.unnest($1::pg_catalog.text[]) AS named (job_id)
CROSS JOIN LATERAL (
    SELECT job.* FROM bandog.job AS job WHERE job.job_id OPERATOR(pg_catalog.=) named.job_id LIMIT 1
) AS job
