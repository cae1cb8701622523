-- Settled jobs, locked: they leave the outcome table, or the caller reports what they are.
SELECT outcome.number, outcome.kind, outcome.attempts, outcome.given_back, outcome.recoveries
FROM (SELECT * FROM unnest($1) AS named (number) ORDER BY named.number) AS named
CROSS JOIN LATERAL (
    SELECT outcome.* FROM bandog.outcome AS outcome WHERE outcome.number = named.number FOR UPDATE
) AS outcome
