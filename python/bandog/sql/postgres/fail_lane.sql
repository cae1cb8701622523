-- Queued jobs of one lane are settled as failed, in order of admission. Rows that others hold locked are skipped: they are
-- being claimed. For the default lane: fail_lane_default.sql.
WITH chosen AS MATERIALIZED (
    SELECT ready.number FROM bandog.ready AS ready
    WHERE ready.queue = $1 AND ready.lane = $2 AND ready.lane <> 'default'
    ORDER BY ready.number
    LIMIT $4
    FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM bandog.ready WHERE number = ANY (ARRAY(SELECT chosen.number FROM chosen))
    RETURNING *
)
INSERT INTO bandog.outcome (
    number, kind, settled_at, attempts, given_back, recoveries, error, last_token, last_report
)
SELECT
    taken.number, 'failed', clock.now, taken.attempts, taken.given_back, taken.recoveries, $3,
    taken.last_token, taken.last_report
FROM taken CROSS JOIN (SELECT bandog.clock() AS now OFFSET 0) AS clock
RETURNING number
