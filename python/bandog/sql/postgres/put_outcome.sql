-- Jobs become settled. A second outcome for the same job violates the primary key.
INSERT INTO bandog.outcome (
    number, kind, settled_at, worker, attempts, given_back, recoveries,
    result, error, evidence, last_token, last_report
)
SELECT
    put.number, put.kind, clock.now, put.worker, put.attempts, put.given_back, put.recoveries,
    put.result::pg_catalog.json, put.error, put.evidence::pg_catalog.json, put.last_token, put.last_report
FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS put (
    number, kind, worker, attempts, given_back, recoveries, result, error, evidence, last_token, last_report
)
CROSS JOIN (SELECT bandog.clock() AS now OFFSET 0) AS clock
