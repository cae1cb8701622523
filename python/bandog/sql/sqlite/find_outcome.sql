-- A settled job.
SELECT kind, attempts, given_back, recoveries
FROM bandog_outcome
WHERE number = ?1
