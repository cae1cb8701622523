-- How many jobs of each queue are running: as many rows are read as there are claims.
SELECT job.queue, pg_catalog.count(*) AS size
FROM bandog.lease AS lease
CROSS JOIN LATERAL (SELECT job.queue FROM bandog.job AS job WHERE job.number = lease.number LIMIT 1) AS job
GROUP BY job.queue
