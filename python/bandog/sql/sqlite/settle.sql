-- End a claim, if it still holds.
DELETE FROM bandog_lease
WHERE number = ?1 AND lease_token = ?2 AND (lease_until > ?3 OR lease_until IS NULL)
