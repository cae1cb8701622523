-- After a COMMIT that failed: is the claim that it ended gone?
SELECT NOT EXISTS (SELECT 1 FROM bandog_lease WHERE number = ?1 AND lease_token = ?2) AS stands
