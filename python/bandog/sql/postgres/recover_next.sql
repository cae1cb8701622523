-- The time, and when the next running claim expires unless it is renewed. Reads as many rows as jobs are running.
SELECT bandog.clock() AS now, (SELECT pg_catalog.min(lease.lease_until) FROM bandog.lease AS lease) AS lease_until
