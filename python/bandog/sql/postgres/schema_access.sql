-- Which privileges of administration/grant_*.sql the present role lacks in the schema $1, by kind of role, each text empty
-- where none is. Readable for everybody, whatever was granted. A table that a migration is still to make lacks nothing.
WITH schema AS (
    SELECT schema.oid FROM pg_catalog.pg_namespace AS schema WHERE schema.nspname = $1
), lacking AS (
    SELECT 'observer' AS kind, 'USAGE' AS privilege, 'the schema' AS object
    FROM schema
    WHERE NOT pg_catalog.has_schema_privilege(schema.oid, 'USAGE')
    UNION ALL
    SELECT needed.kind, 'EXECUTE', needed.name || '()'
    FROM (VALUES ('observer', 'clock'), ('producer', 'next_number')) AS needed (kind, name)
    CROSS JOIN schema
    JOIN pg_catalog.pg_proc AS function ON function.pronamespace = schema.oid AND function.proname = needed.name
    WHERE NOT pg_catalog.has_function_privilege(function.oid, 'EXECUTE')
    UNION ALL
    SELECT needed.kind, 'USAGE', needed.name
    FROM (VALUES ('producer', 'job_number_seq')) AS needed (kind, name)
    CROSS JOIN schema
    JOIN pg_catalog.pg_class AS class ON class.relnamespace = schema.oid AND class.relname = needed.name
    WHERE NOT pg_catalog.has_sequence_privilege(class.oid, 'USAGE')
    UNION ALL
    SELECT needed.kind, needed.privilege, needed.name
    FROM (VALUES
        ('observer', 'SELECT', 'migration'), ('observer', 'SELECT', 'job'), ('observer', 'SELECT', 'ready'),
        ('observer', 'SELECT', 'lease'), ('observer', 'SELECT', 'outcome'),
        ('producer', 'INSERT', 'job'), ('producer', 'INSERT', 'ready'), ('producer', 'SELECT', 'lane_limit'),
        ('worker', 'DELETE', 'job'), ('worker', 'DELETE', 'ready'), ('worker', 'DELETE', 'lease'),
        ('worker', 'DELETE', 'outcome'), ('worker', 'DELETE', 'lane_limit'),
        ('worker', 'INSERT', 'lease'), ('worker', 'INSERT', 'outcome'), ('worker', 'INSERT', 'lane_limit')
    ) AS needed (kind, privilege, name)
    CROSS JOIN schema
    JOIN pg_catalog.pg_class AS class ON class.relnamespace = schema.oid AND class.relname = needed.name
    WHERE class.relkind = 'r' AND NOT pg_catalog.has_table_privilege(class.oid, needed.privilege)
    UNION ALL
    SELECT needed.kind, 'UPDATE (' || needed.field || ')', needed.name
    FROM (VALUES
        ('producer', 'lane_limit', 'held'),
        ('worker', 'ready', 'number'), ('worker', 'outcome', 'number'), ('worker', 'lease', 'lease_until'),
        ('worker', 'lease', 'cancel_requested_at'), ('worker', 'lease', 'cancel_reason'), ('worker', 'lane_limit', 'most')
    ) AS needed (kind, name, field)
    CROSS JOIN schema
    JOIN pg_catalog.pg_class AS class ON class.relnamespace = schema.oid AND class.relname = needed.name
    JOIN pg_catalog.pg_attribute AS field ON field.attrelid = class.oid AND field.attname = needed.field
    WHERE class.relkind = 'r' AND NOT pg_catalog.has_column_privilege(class.oid, field.attnum, 'UPDATE')
), named AS (
    SELECT lacking.kind, lacking.privilege || ' on ' || lacking.object AS privilege FROM lacking
)
SELECT
    current_user::text AS role,
    coalesce(pg_catalog.string_agg(named.privilege, ', ') FILTER (WHERE named.kind = 'observer'), '') AS observer,
    coalesce(pg_catalog.string_agg(named.privilege, ', ') FILTER (WHERE named.kind = 'producer'), '') AS producer,
    coalesce(pg_catalog.string_agg(named.privilege, ', ') FILTER (WHERE named.kind = 'worker'), '') AS worker
FROM named
