-- A queued job.
SELECT number, attempts, given_back, recoveries, last_token, last_report
FROM bandog_ready
WHERE number = ?1
