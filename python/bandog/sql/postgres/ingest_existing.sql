-- Compare stored jobs with ones that came again under their job_id: true per field that is the same. Not returned: a job
-- that is not there, because the transaction that held its id was rolled back, or because it was purged.
-- IS NOT DISTINCT FROM, because an absent budget equals an absent budget.
SELECT
    again.place,
    job.queue = again.queue AS same_queue,
    job.lane = again.lane AS same_lane,
    job.priority = again.priority AS same_priority,
    job.payload::pg_catalog.text = again.payload AS same_payload,
    job.max_attempts IS NOT DISTINCT FROM again.max_attempts AS same_max_attempts,
    job.max_recoveries IS NOT DISTINCT FROM again.max_recoveries AS same_max_recoveries,
    bandog.clock() AS now
FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY AS again (
    job_id, queue, lane, priority, payload, max_attempts, max_recoveries, place
)
CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.job_id = again.job_id LIMIT 1) AS job
