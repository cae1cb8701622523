-- After a COMMIT that failed: is the outcome that it wrote there?
SELECT EXISTS (SELECT 1 FROM bandog_outcome WHERE number = ?1) AS stands
