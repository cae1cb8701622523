-- Queued jobs of the default lane, which has no index of its own, are settled as failed: most jobs of a queue are in it.
WITH chosen AS MATERIALIZED (
    SELECT ready.number FROM bandog.ready AS ready
    WHERE ready.queue = $1 AND ready.lane = 'default'
    LIMIT $3
    FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM bandog.ready WHERE number = ANY (ARRAY(SELECT chosen.number FROM chosen))
    RETURNING *
)
INSERT INTO bandog.outcome (
    number, kind, settled_at, attempts, given_back, recoveries, error, last_token, last_report
)
SELECT
    taken.number, 'failed', clock.now, taken.attempts, taken.given_back, taken.recoveries, $2,
    taken.last_token, taken.last_report
FROM taken CROSS JOIN (SELECT bandog.clock() AS now OFFSET 0) AS clock
RETURNING number
