-- The whole life cycle from the start. A job's state is the table that holds it:
--   bandog_job      what was ingested; never updated
--   bandog_ready    queued
--   bandog_lease    running
--   bandog_outcome  settled; its primary key is the promise of one terminal outcome per job
-- A transition is one delete and one insert in one transaction; the counters travel with the narrow row.
-- Times are whole microseconds: of the wall clock since 1970 (UTC), except lease_until, which is of the machine's
-- uptime including sleep, so that stepping the wall clock neither ends nor prolongs a lease.

CREATE TABLE bandog_schema (
    version     INTEGER NOT NULL PRIMARY KEY,
    applied_at  INTEGER NOT NULL
);

-- One row. `boot` names the boot that the lease_until values belong to: under another boot they have all expired. A drop of
-- wall_minus_uptime within a boot means that the wall clock was set back.
CREATE TABLE bandog_clock (
    only               INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    boot               TEXT NOT NULL,
    wall_minus_uptime  INTEGER NOT NULL
);

-- One row: the last order number that was given out. It only grows: the number of a purged job is never given to another
-- one, so that a late report with an old claim can meet no stranger. (AUTOINCREMENT promises the same, and cost a sixth of
-- the speed of bulk ingest: it is written once per row, this once per batch.)
CREATE TABLE bandog_counter (
    only  INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    last  INTEGER NOT NULL
);

INSERT INTO bandog_counter (only, last) VALUES (1, 0);

CREATE TABLE bandog_job (
    number          INTEGER PRIMARY KEY,
    job_id          TEXT NOT NULL UNIQUE,
    queue           TEXT NOT NULL,
    lane            TEXT NOT NULL,
    priority        INTEGER NOT NULL,
    payload         TEXT NOT NULL,
    max_attempts    INTEGER,
    max_recoveries  INTEGER,
    backoff_base    INTEGER,
    backoff_cap     INTEGER,
    backoff_jitter  REAL,
    timeout         INTEGER,
    admitted_at     INTEGER NOT NULL
);

-- `held` is 1 where the job was asked to wait (a delay, a back-off, a snooze) and 0 where it may run at once: after the
-- wall clock was set back, the latter must not wait for the clock to catch up.
CREATE TABLE bandog_ready (
    number        INTEGER PRIMARY KEY,
    queue         TEXT NOT NULL,
    lane          TEXT NOT NULL,
    priority      INTEGER NOT NULL,
    available_at  INTEGER NOT NULL,
    held          INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    given_back    INTEGER NOT NULL,
    recoveries    INTEGER NOT NULL,
    last_token    TEXT,
    last_report   TEXT,
    last_error    TEXT
);

-- The order of claiming, as one range per queue and priority.
CREATE INDEX bandog_ready_order ON bandog_ready (queue, priority DESC, available_at, number);

-- The jobs of one lane. The default lane is left out, so that jobs which use no lanes do not pay for them.
CREATE INDEX bandog_ready_lane ON bandog_ready (queue, lane, number) WHERE lane <> 'default';

-- How many jobs of a lane may be queued, where that is bounded.
CREATE TABLE bandog_lane_limit (
    queue  TEXT NOT NULL,
    lane   TEXT NOT NULL,
    most   INTEGER NOT NULL,
    PRIMARY KEY (queue, lane)
);

-- lease_until is NULL where a host's liveness probe stands in for the lease.
CREATE TABLE bandog_lease (
    number               INTEGER PRIMARY KEY,
    lease_token          TEXT NOT NULL,
    lease_until          INTEGER,
    worker               TEXT NOT NULL,
    claimed_at           INTEGER NOT NULL,
    attempts             INTEGER NOT NULL,
    given_back           INTEGER NOT NULL,
    recoveries           INTEGER NOT NULL,
    cancel_requested_at  INTEGER,
    cancel_reason        TEXT,
    last_token           TEXT,
    last_report          TEXT,
    last_error           TEXT
);

-- Recovery runs in front of every claim and must not read all that is running.
CREATE INDEX bandog_lease_end ON bandog_lease (lease_until);

CREATE TABLE bandog_outcome (
    number       INTEGER PRIMARY KEY,
    kind         TEXT NOT NULL,
    settled_at   INTEGER NOT NULL,
    worker       TEXT,
    attempts     INTEGER NOT NULL,
    given_back   INTEGER NOT NULL,
    recoveries   INTEGER NOT NULL,
    result       TEXT,
    error        TEXT,
    evidence     TEXT,
    last_token   TEXT,
    last_report  TEXT
);

-- Purging goes by age, and looks at one kind at a time. Every outcome is in exactly one of the two.
CREATE INDEX bandog_outcome_completed ON bandog_outcome (settled_at) WHERE kind = 'completed';
CREATE INDEX bandog_outcome_other ON bandog_outcome (kind, settled_at) WHERE kind <> 'completed';
