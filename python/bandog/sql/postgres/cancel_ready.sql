-- Queued jobs are cancelled, each for its reason, and never run.
WITH taken AS (
    DELETE FROM bandog.ready AS ready
    USING unnest($1, $2) AS asked (number, reason)
    WHERE ready.number = asked.number
    RETURNING ready.*, asked.reason
)
INSERT INTO bandog.outcome (
    number, kind, settled_at, attempts, given_back, recoveries, error, last_token, last_report
)
SELECT
    taken.number, 'cancelled', bandog.clock(), taken.attempts, taken.given_back, taken.recoveries, taken.reason,
    taken.last_token, taken.last_report
FROM taken
RETURNING number
