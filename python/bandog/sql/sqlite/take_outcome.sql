-- A settled job leaves the outcome table: requeued, or purged.
DELETE FROM bandog_outcome
WHERE number = ?1
