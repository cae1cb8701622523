-- Queued jobs of one lane, in order of admission. For the default lane: fail_lane_default.sql.
SELECT number, attempts, given_back, recoveries, last_token, last_report
FROM bandog_ready
WHERE queue = ?1 AND lane = ?2 AND lane <> 'default'
ORDER BY number
LIMIT ?3
