-- What was recorded for the last claim of this job that was ended by its holder: the answer to a settle whose reply was
-- lost. last_report is a word, and after a put-back the number of the attempt that was put back; available_at is where a
-- queued job waits now.
SELECT last_report, NULL AS available_at, attempts FROM bandog_lease WHERE number = ?1 AND last_token = ?2
UNION ALL
SELECT last_report, available_at, attempts FROM bandog_ready WHERE number = ?1 AND last_token = ?2
UNION ALL
SELECT coalesce(last_report, kind), NULL AS available_at, attempts
FROM bandog_outcome
WHERE number = ?1 AND last_token = ?2
