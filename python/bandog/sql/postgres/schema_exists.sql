-- Whether there is such a schema, and whether bandog's tables are in it. Readable for everybody, whatever was granted.
SELECT
    EXISTS (SELECT 1 FROM pg_catalog.pg_namespace AS schema WHERE schema.nspname = $1) AS found,
    EXISTS (
        SELECT 1
        FROM pg_catalog.pg_class AS class
        JOIN pg_catalog.pg_namespace AS schema ON schema.oid = class.relnamespace
        WHERE schema.nspname = $1 AND class.relname = 'migration' AND class.relkind = 'r'
    ) AS migrated
