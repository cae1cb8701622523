-- After a COMMIT that failed: is what it admitted there?
SELECT EXISTS (SELECT 1 FROM bandog_job WHERE number = ?1) AS stands
