-- A queued job leaves the ready table.
DELETE FROM bandog_ready
WHERE number = ?1
