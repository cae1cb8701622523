-- After a COMMIT that failed: is the lease that it wrote there?
SELECT EXISTS (
    SELECT 1 FROM bandog_lease WHERE number = ?1 AND lease_token = ?2 AND lease_until IS ?3
) AS stands
