-- Who keeps the server from removing dead rows of our tables since the longest: a session of this database, a standby that
-- reports to its primary, a prepared transaction, or a replication slot. No row where nobody does.
-- Oldest by the transactions that have begun since, which is what the server goes by; a slot tells nothing else. Not
-- counted: a vacuum, which is in nobody's way, and a slot's catalog_xmin, which keeps rows of the catalogue alone.
-- A transaction that has written (backend_xid) holds as much as one that has read and will read again (backend_xmin).
-- Of another user's session an ordinary role sees all but the time. One row is read per session.
SELECT
    found.kind, found.holder, found.application, found.transactions,
    (pg_catalog.extract('epoch', bandog.clock() - found.since) * 1000000)::bigint AS age
FROM (
    SELECT
        'session' AS kind, activity.pid::text AS holder, activity.application_name AS application, held.transactions,
        activity.xact_start AS since
    FROM pg_catalog.pg_stat_activity AS activity
    CROSS JOIN LATERAL (
        SELECT pg_catalog.max(pg_catalog.age(held.by)) AS transactions
        FROM (VALUES (activity.backend_xmin), (activity.backend_xid)) AS held (by)
    ) AS held
    WHERE held.transactions IS NOT NULL
        AND activity.pid <> pg_catalog.pg_backend_pid()
        AND coalesce(activity.datname = pg_catalog.current_database(), true)
        AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_progress_vacuum AS vacuum WHERE vacuum.pid = activity.pid)
    UNION ALL
    SELECT 'prepared', prepared.gid, NULL, pg_catalog.age(prepared.transaction), prepared.prepared
    FROM pg_catalog.pg_prepared_xacts AS prepared
    WHERE prepared.database = pg_catalog.current_database()
    UNION ALL
    SELECT 'slot', slot.slot_name, NULL, pg_catalog.age(slot.xmin), NULL
    FROM pg_catalog.pg_replication_slots AS slot
    WHERE slot.xmin IS NOT NULL
) AS found
ORDER BY found.transactions DESC, found.since
LIMIT 1
