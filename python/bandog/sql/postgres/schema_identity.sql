-- Which schema of which database of which server this is, in one text; no row where our tables are not. Two connections
-- with the same answer lead to the same jobs: a copy or a restored dump is another server, database or table.
SELECT pg_catalog.concat_ws('/', system.system_identifier, database.oid, class.oid) AS identity
FROM pg_catalog.pg_control_system() AS system
CROSS JOIN pg_catalog.pg_database AS database
CROSS JOIN pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS schema ON schema.oid OPERATOR(pg_catalog.=) class.relnamespace
WHERE database.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
    AND schema.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.text
    AND class.relname OPERATOR(pg_catalog.=) 'job' AND class.relkind OPERATOR(pg_catalog.=) 'r'
