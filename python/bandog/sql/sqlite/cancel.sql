-- Ask for the cancellation of a running job. The first request stands.
UPDATE bandog_lease
SET cancel_requested_at = ?2, cancel_reason = ?3
WHERE number = ?1 AND cancel_requested_at IS NULL
