-- After a COMMIT that failed: is the job queued that it queued?
SELECT EXISTS (SELECT 1 FROM bandog_ready WHERE number = ?1) AS stands
