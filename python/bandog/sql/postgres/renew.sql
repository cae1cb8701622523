-- Prolong claims by $3 microseconds, where they still hold by the clock of this moment. Rows that others hold locked
-- are skipped, so that one open transaction does not let every lease lapse: renew_locked.sql tells them from stale ones.
WITH held AS MATERIALIZED (
    SELECT lease.number
    FROM (SELECT * FROM unnest($1, $2) AS named (number, lease_token) ORDER BY named.number) AS named
    CROSS JOIN LATERAL (
        SELECT lease.number FROM bandog.lease AS lease
        WHERE lease.number = named.number AND lease.lease_token = named.lease_token
            AND lease.lease_until > bandog.clock()
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS lease
)
UPDATE bandog.lease
SET lease_until = bandog.clock() + $3::float8 * interval '1 microsecond'
WHERE number = ANY (ARRAY(SELECT held.number FROM held))
RETURNING number, lease_token, cancel_requested_at IS NOT NULL AS cancel_requested, cancel_reason
