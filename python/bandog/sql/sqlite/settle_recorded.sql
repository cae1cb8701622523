-- What was recorded for the last claim of this job that was ended by its holder: the answer to a settle whose reply was
-- lost. available_at is where a put-back left the job, and NULL once it has moved on.
SELECT last_report, NULL AS available_at FROM bandog_lease WHERE number = ?1 AND last_token = ?2
UNION ALL
SELECT last_report, available_at FROM bandog_ready WHERE number = ?1 AND last_token = ?2
UNION ALL
SELECT coalesce(last_report, kind), NULL AS available_at FROM bandog_outcome WHERE number = ?1 AND last_token = ?2
