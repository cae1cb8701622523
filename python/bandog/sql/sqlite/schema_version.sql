-- The version of the tables: that of the latest migration.
SELECT coalesce(max(version), 0) AS version
FROM bandog_schema
