-- Whether any job is queued (also for later) or running.
SELECT EXISTS (SELECT 1 FROM bandog.ready) OR EXISTS (SELECT 1 FROM bandog.lease) AS pending
