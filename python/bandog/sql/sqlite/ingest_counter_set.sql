-- Give out order numbers, up to this one. The caller read the last one under the same write lock.
UPDATE bandog_counter
SET last = ?1
