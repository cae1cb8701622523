-- Claim the next due jobs of one queue and priority, $1 and $2, from the position $3: the short way of claim.sql, for when
-- that is all there is. Finding out which ranges there are costs a claim of one job a third of its time.
--
-- Nothing is claimed, and is_sole is false, where anything else that was asked for is queued: of another priority, of one
-- of the queues $4, or, where $5 says that all are meant, of any other queue; or a job from before the position.
-- $6 to $10 are those of claim.sql, and so is what is returned.
WITH clock AS MATERIALIZED (
    SELECT
        now, now >= $10 AS recovery_is_due,
        NOT EXISTS (SELECT FROM bandog.ready WHERE queue = $1 AND priority > $2)
        AND NOT EXISTS (SELECT FROM bandog.ready WHERE queue = $1 AND priority < $2)
        AND NOT EXISTS (
            SELECT FROM bandog.ready WHERE queue = $1 AND priority = $2 AND available_at < $3 AND late
        )
        AND NOT EXISTS (
            SELECT FROM unnest($4) AS named (queue)
            CROSS JOIN LATERAL (SELECT FROM bandog.ready AS ready WHERE ready.queue = named.queue LIMIT 1) AS found
        )
        AND NOT ($5 AND EXISTS (SELECT FROM bandog.ready WHERE queue < $1))
        AND NOT ($5 AND EXISTS (SELECT FROM bandog.ready WHERE queue > $1)) AS is_sole
    FROM (SELECT bandog.clock() AS now) AS read
), taken AS (
    DELETE FROM bandog.ready WHERE ctid = ANY (ARRAY(
        SELECT due.ctid FROM bandog.ready AS due
        WHERE due.queue = $1 AND due.priority = $2
            AND due.available_at >= $3 AND due.available_at <= (SELECT clock.now FROM clock)
        ORDER BY due.available_at, due.number
        LIMIT (SELECT CASE WHEN clock.recovery_is_due OR NOT clock.is_sole THEN 0 ELSE $6 END FROM clock)
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
), held AS (
    INSERT INTO bandog.lease (
        number, lease_token, lease_until, worker, claimed_at,
        attempts, given_back, recoveries, last_token, last_report, last_error
    )
    SELECT
        taken.number, $7, clock.now + $9 * interval '1 microsecond', $8, clock.now,
        taken.attempts + 1, taken.given_back, taken.recoveries, taken.last_token, taken.last_report, taken.last_error
    FROM taken CROSS JOIN clock
)
SELECT clock.now, clock.recovery_is_due, clock.is_sole, claimed.*
FROM clock
LEFT JOIN LATERAL (
    SELECT
        taken.number, taken.available_at, taken.late,
        taken.attempts + 1 AS attempts, taken.given_back, taken.recoveries, taken.last_error,
        job.job_id, job.queue, job.lane, job.priority, job.payload,
        job.max_attempts, job.max_recoveries, job.timeout, job.admitted_at
    FROM taken
    CROSS JOIN LATERAL (SELECT job.* FROM bandog.job AS job WHERE job.number = taken.number LIMIT 1) AS job
) AS claimed ON true
ORDER BY claimed.available_at, claimed.number
