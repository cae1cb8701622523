-- Remove everything that the migrations made, jobs included, and then the schema, unless something else is in it. Nothing
-- else is dropped: what depends on our tables (a view, say) keeps them all, and the server says what it is.
-- In one transaction. Each new migration that makes something adds it here.
DROP FUNCTION IF EXISTS bandog.next_number();
DROP TABLE IF EXISTS
    bandog.outcome, bandog.lease, bandog.lane_limit, bandog.ready, bandog.job, bandog.migration;
DROP FUNCTION IF EXISTS bandog.clock();
DO $uninstall$
BEGIN
    DROP SCHEMA bandog;
EXCEPTION
    WHEN dependent_objects_still_exist OR insufficient_privilege THEN NULL;  -- somebody else's things are in it, or it is
END
$uninstall$;
