-- Compare a stored job with one that came again under its job_id: a 1 per field that is the same.
-- IS, because an absent budget equals an absent budget.
SELECT
    queue IS ?2 AS same_queue,
    lane IS ?3 AS same_lane,
    priority IS ?4 AS same_priority,
    payload IS ?5 AS same_payload,
    max_attempts IS ?6 AS same_max_attempts,
    max_recoveries IS ?7 AS same_max_recoveries
FROM bandog_job
WHERE job_id = ?1
