-- Compare stored jobs with ones that came again under their job_id: true per field that is the same. Not returned: a job
-- that is not there, because the transaction that held its id was rolled back, or because it was purged.
-- An absent budget equals an absent budget, which IS NOT DISTINCT FROM would say, with an operator of the search path's.
SELECT
    again.place,
    job.queue OPERATOR(pg_catalog.=) again.queue AS same_queue,
    job.lane OPERATOR(pg_catalog.=) again.lane AS same_lane,
    job.priority OPERATOR(pg_catalog.=) again.priority AS same_priority,
    job.payload::pg_catalog.text OPERATOR(pg_catalog.=) again.payload AS same_payload,
    coalesce(
        job.max_attempts OPERATOR(pg_catalog.=) again.max_attempts,
        job.max_attempts IS NULL AND again.max_attempts IS NULL
    ) AS same_max_attempts,
    coalesce(
        job.max_recoveries OPERATOR(pg_catalog.=) again.max_recoveries,
        job.max_recoveries IS NULL AND again.max_recoveries IS NULL
    ) AS same_max_recoveries,
    bandog.clock() AS now
FROM unnest(
    $1::pg_catalog.text[], $2::pg_catalog.text[], $3::pg_catalog.text[], $4::pg_catalog.int4[], $5::pg_catalog.text[],
    $6::pg_catalog.int8[], $7::pg_catalog.int8[]
) WITH ORDINALITY AS again (
    job_id, queue, lane, priority, payload, max_attempts, max_recoveries, place
)
CROSS JOIN LATERAL (
    SELECT job.* FROM bandog.job AS job WHERE job.job_id OPERATOR(pg_catalog.=) again.job_id LIMIT 1
) AS job
