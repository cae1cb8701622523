-- How many jobs of each queue are running: as many rows are read as there are claims.
SELECT job.queue, count(*) AS size
FROM bandog_lease AS lease
CROSS JOIN bandog_job AS job ON job.number = lease.number
GROUP BY job.queue
