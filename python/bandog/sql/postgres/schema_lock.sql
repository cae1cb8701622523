-- Migrations come one after the other. The lock ends with the transaction, and is the same whoever takes it.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('bandog migrations', 0))
