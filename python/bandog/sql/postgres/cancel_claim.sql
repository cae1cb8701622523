-- The claims on running jobs, and the reason with which their cancellation was asked for first.
SELECT lease.number, lease.lease_token, lease.cancel_reason
FROM unnest($1) AS named (number)
CROSS JOIN LATERAL (SELECT lease.* FROM bandog.lease AS lease WHERE lease.number = named.number LIMIT 1) AS lease
WHERE lease.cancel_requested_at IS NOT NULL
