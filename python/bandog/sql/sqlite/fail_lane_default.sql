-- Queued jobs of the default lane, which has no index of its own: most jobs of a queue are in it.
SELECT number, attempts, given_back, recoveries, last_token, last_report
FROM bandog_ready
WHERE queue = ?1 AND lane = 'default'
LIMIT ?2
