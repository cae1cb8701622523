-- Queued jobs are cancelled, each for its reason, and never run. They are looked up one by one: see settle.sql.
WITH held AS MATERIALIZED (
    SELECT ready.*, asked.reason
    FROM unnest($1, $2) AS asked (number, reason)
    CROSS JOIN LATERAL (
        SELECT ready.* FROM bandog.ready AS ready WHERE ready.number = asked.number
        FOR UPDATE
    ) AS ready
), taken AS (
    DELETE FROM bandog.ready WHERE number = ANY (ARRAY(SELECT held.number FROM held))
)
INSERT INTO bandog.outcome (
    number, kind, settled_at, attempts, given_back, recoveries, error, last_token, last_report
)
SELECT
    held.number, 'cancelled', bandog.clock(), held.attempts, held.given_back, held.recoveries, held.reason,
    held.last_token, held.last_report
FROM held
RETURNING number
