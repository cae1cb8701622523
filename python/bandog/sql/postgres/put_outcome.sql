-- Jobs become settled. A second outcome for the same job violates the primary key.
INSERT INTO bandog.outcome (
    number, kind, settled_at, worker, attempts, given_back, recoveries,
    result, error, evidence, last_token, last_report
)
SELECT
    put.number, put.kind, clock.now, put.worker, put.attempts, put.given_back, put.recoveries,
    put.result::pg_catalog.json, put.error, put.evidence::pg_catalog.json, put.last_token, put.last_report
FROM unnest(
    $1::pg_catalog.int8[], $2::pg_catalog.text[], $3::pg_catalog.text[], $4::pg_catalog.int4[], $5::pg_catalog.int4[],
    $6::pg_catalog.int4[], $7::pg_catalog.text[], $8::pg_catalog.text[], $9::pg_catalog.text[],
    $10::pg_catalog.text[], $11::pg_catalog.text[]
) AS put (
    number, kind, worker, attempts, given_back, recoveries, result, error, evidence, last_token, last_report
)
CROSS JOIN (SELECT bandog.clock() AS now OFFSET 0) AS clock
