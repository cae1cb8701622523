-- What a role that ingests takes beside grant_observer.sql: to store new jobs, and nothing that changes a stored one.
-- The one column that it may write is never written: a bounded lane's row is locked while its jobs are counted, and
-- locking takes the right to write a column, whichever.
GRANT EXECUTE ON FUNCTION bandog.next_number() TO "grantee";
GRANT USAGE ON SEQUENCE bandog.job_number_seq TO "grantee";
GRANT INSERT ON TABLE bandog.job, bandog.ready TO "grantee";
GRANT SELECT, UPDATE (held) ON TABLE bandog.lane_limit TO "grantee";
