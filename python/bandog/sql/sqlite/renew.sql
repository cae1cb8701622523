-- Prolong a claim, if it still holds.
UPDATE bandog_lease
SET lease_until = ?4
WHERE number = ?1 AND lease_token = ?2 AND lease_until > ?3
