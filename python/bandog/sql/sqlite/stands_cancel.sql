-- After a COMMIT that failed: is the request to cancel there?
SELECT EXISTS (SELECT 1 FROM bandog_lease WHERE number = ?1 AND cancel_requested_at IS NOT NULL) AS stands
