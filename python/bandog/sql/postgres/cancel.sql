-- Ask for the cancellation of running jobs. The first request stands.
UPDATE bandog.lease AS lease
SET cancel_requested_at = bandog.clock(), cancel_reason = asked.reason
FROM unnest($1, $2) AS asked (number, reason)
WHERE lease.number = asked.number AND lease.cancel_requested_at IS NULL
