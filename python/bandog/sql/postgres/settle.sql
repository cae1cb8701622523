-- End claims with an outcome that takes no rule, each only where it still holds by the clock of this moment. Waits for a
-- row that others hold locked, for as long as the transaction's lock timeout allows: settle_claim.sql skips such rows.
WITH ended AS (
    DELETE FROM bandog.lease AS lease
    USING unnest(
        $1::pg_catalog.int8[], $2::pg_catalog.text[], $3::pg_catalog.text[], $4::pg_catalog.text[],
        $5::pg_catalog.text[], $6::pg_catalog.text[]
    ) AS report (number, lease_token, kind, result, error, evidence)
    WHERE lease.number OPERATOR(pg_catalog.=) report.number
        AND lease.lease_token OPERATOR(pg_catalog.=) report.lease_token
        AND lease.lease_until OPERATOR(pg_catalog.>) bandog.clock()
    RETURNING
        lease.number, report.kind, lease.worker, lease.attempts, lease.given_back, lease.recoveries,
        report.result, report.error, report.evidence, report.lease_token
)
INSERT INTO bandog.outcome (
    number, kind, settled_at, worker, attempts, given_back, recoveries, result, error, evidence, last_token
)
SELECT
    ended.number, ended.kind, clock.now, ended.worker, ended.attempts, ended.given_back, ended.recoveries,
    ended.result::pg_catalog.json, ended.error, ended.evidence::pg_catalog.json, ended.lease_token
FROM ended CROSS JOIN (SELECT bandog.clock() AS now OFFSET 0) AS clock
RETURNING number
