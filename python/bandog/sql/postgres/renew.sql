-- Prolong claims by $3 microseconds each, where they still hold by the clock of this moment. Rows that others hold locked
-- are skipped, so that one open transaction does not let every lease lapse: renew_locked.sql tells them from stale ones.
WITH held AS MATERIALIZED (
    SELECT lease.number, named.lease
    FROM (SELECT * FROM unnest($1, $2, $3) AS named (number, lease_token, lease) ORDER BY named.number) AS named
    CROSS JOIN LATERAL (
        SELECT lease.number FROM bandog.lease AS lease
        WHERE lease.number = named.number AND lease.lease_token = named.lease_token
            AND lease.lease_until > bandog.clock()
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS lease
)
UPDATE bandog.lease AS lease
SET lease_until = bandog.clock() + held.lease * interval '1 microsecond'
FROM held
WHERE lease.number = held.number
RETURNING lease.number, lease.lease_token, lease.cancel_requested_at IS NOT NULL AS cancel_requested, lease.cancel_reason
