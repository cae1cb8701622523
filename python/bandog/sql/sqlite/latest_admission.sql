-- When the latest job was admitted: in the future only after the clock was set back.
SELECT admitted_at
FROM bandog_job
ORDER BY number DESC
LIMIT 1
