-- The version of the tables: that of the latest migration.
SELECT coalesce(pg_catalog.max(version), 0) AS version
FROM bandog.migration
