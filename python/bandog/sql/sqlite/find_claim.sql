-- A claim that still holds: matching token, and a lease that has not expired by the clock of this statement (or a host's
-- liveness probe instead of a lease).
SELECT worker, attempts, given_back, recoveries, cancel_requested_at, cancel_reason
FROM bandog_lease
WHERE number = ?1 AND lease_token = ?2 AND (lease_until > ?3 OR lease_until IS NULL)
