-- Claims that a liveness probe stood for, and whose host is gone, get a lease.
UPDATE bandog_lease
SET lease_until = ?1
WHERE lease_until IS NULL
