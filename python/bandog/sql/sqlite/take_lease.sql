-- A claim leaves the lease table. The caller read it under the same write lock.
DELETE FROM bandog_lease
WHERE number = ?1
