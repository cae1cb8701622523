-- Prolong a claim that still holds, and bring back whether its cancellation was asked for.
UPDATE bandog_lease
SET lease_until = ?4
WHERE number = ?1 AND lease_token = ?2 AND lease_until > ?3
RETURNING cancel_requested_at, cancel_reason
