-- What the executor is given of a claimed job.
SELECT job_id, queue, lane, priority, payload, max_attempts, max_recoveries, timeout, admitted_at
FROM bandog_job
WHERE number = ?1
