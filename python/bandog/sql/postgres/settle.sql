-- End claims with an outcome that takes no rule, each only where it still holds by the clock of this moment. Waits for a
-- row that others hold locked, for as long as the transaction's lock timeout allows: settle_claim.sql skips such rows.
-- $4 to $6 may be empty where they are null throughout.
-- The rows are looked up and locked one by one before they are deleted: in one join, statistics that were gathered while
-- the table was nearly empty have the planner compare every report with every claim (1,000 took two seconds).
WITH held AS MATERIALIZED (
    SELECT
        lease.number, report.kind, lease.worker, lease.attempts, lease.given_back, lease.recoveries,
        report.result, report.error, report.evidence, report.lease_token
    FROM unnest(
        $1::pg_catalog.int8[], $2::pg_catalog.text[], $3::pg_catalog.text[], $4::pg_catalog.text[],
        $5::pg_catalog.text[], $6::pg_catalog.text[]
    ) AS report (number, lease_token, kind, result, error, evidence)
    CROSS JOIN LATERAL (
        SELECT lease.number, lease.worker, lease.attempts, lease.given_back, lease.recoveries
        FROM bandog.lease AS lease
        WHERE lease.number OPERATOR(pg_catalog.=) report.number
            AND lease.lease_token OPERATOR(pg_catalog.=) report.lease_token
            AND lease.lease_until OPERATOR(pg_catalog.>) bandog.clock()
        FOR UPDATE
    ) AS lease
), ended AS (
    DELETE FROM bandog.lease WHERE number OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT held.number FROM held))
)
INSERT INTO bandog.outcome (
    number, kind, settled_at, worker, attempts, given_back, recoveries, result, error, evidence, last_token
)
SELECT
    held.number, held.kind, clock.now, held.worker, held.attempts, held.given_back, held.recoveries,
    held.result::pg_catalog.json, held.error, held.evidence::pg_catalog.json, held.lease_token
FROM held CROSS JOIN (SELECT bandog.clock() AS now OFFSET 0) AS clock
RETURNING number
