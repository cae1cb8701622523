-- What a role takes that only looks: to open the schema, and to read, list and count jobs. The others take it too.
-- The quoted word grantee stands for the role, and is replaced by its name. schema_access.sql looks for the same privileges.
GRANT USAGE ON SCHEMA bandog TO "grantee";
GRANT EXECUTE ON FUNCTION bandog.clock() TO "grantee";
GRANT SELECT ON TABLE
    bandog.migration, bandog.job, bandog.ready, bandog.lease, bandog.outcome
TO "grantee";
