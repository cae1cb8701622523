-- A job is forgotten.
DELETE FROM bandog_job
WHERE number = ?1
