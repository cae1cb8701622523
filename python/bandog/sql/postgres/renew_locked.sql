-- Claims that still hold, as everybody sees them: what a statement skipped and this one returns is locked.
SELECT lease.number, lease.lease_token
FROM unnest($1, $2) AS named (number, lease_token)
CROSS JOIN LATERAL (
    SELECT lease.number, lease.lease_token FROM bandog.lease AS lease
    WHERE lease.number = named.number AND lease.lease_token = named.lease_token
        AND lease.lease_until > bandog.clock()
    LIMIT 1
) AS lease
