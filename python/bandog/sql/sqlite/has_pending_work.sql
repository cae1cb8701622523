-- Whether any job is queued (also for later) or running.
SELECT EXISTS (SELECT 1 FROM bandog_ready) OR EXISTS (SELECT 1 FROM bandog_lease) AS pending
