-- What a role that runs and looks after jobs takes beside grant_producer.sql. Rows of ready and outcome are never
-- changed, but locked before they are deleted, and locking takes the right to write a column, whichever.
GRANT DELETE ON TABLE bandog.job, bandog.ready, bandog.lease, bandog.outcome, bandog.lane_limit TO "grantee";
GRANT INSERT ON TABLE bandog.lease, bandog.outcome, bandog.lane_limit TO "grantee";
GRANT UPDATE (number) ON TABLE bandog.ready, bandog.outcome TO "grantee";
GRANT UPDATE (lease_until, cancel_requested_at, cancel_reason) ON TABLE bandog.lease TO "grantee";
GRANT UPDATE (most) ON TABLE bandog.lane_limit TO "grantee";
