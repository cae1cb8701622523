//! Every statement, as the file that holds it. The same files are read by the stores in pure Python.

/// The statements of the SQLite family.
pub(crate) mod sqlite {
    macro_rules! statements {
        ($($name:ident = $file:literal;)*) => {
            $(pub(crate) const $name: &str =
                include_str!(concat!("../../python/bandog/sql/sqlite/", $file, ".sql"));)*

            /// All of them, for the tests that prepare each and read its plan.
            #[cfg(test)]
            pub(crate) const ALL: &[(&str, &str)] = &[$(($file, $name)),*];
        };
    }

    statements! {
        ADOPT = "adopt";
        CANCEL = "cancel";
        CANCEL_CLAIM = "cancel_claim";
        CLAIM = "claim";
        CLAIM_JOB = "claim_job";
        CLAIM_LEASE = "claim_lease";
        CLAIM_NEXT = "claim_next";
        CLAIM_PRIORITY = "claim_priority";
        CLAIM_PROBED = "claim_probed";
        CLAIM_QUEUE = "claim_queue";
        CLOCK = "clock";
        CLOCK_BOOT_SET = "clock_boot_set";
        CLOCK_OFFSET_SET = "clock_offset_set";
        CLOCK_START = "clock_start";
        DEAD_LETTERS = "dead_letters";
        FAIL_LANE = "fail_lane";
        FAIL_LANE_DEFAULT = "fail_lane_default";
        FIND_CLAIM = "find_claim";
        FIND_JOB = "find_job";
        FIND_OUTCOME = "find_outcome";
        FIND_READY = "find_ready";
        HAS_PENDING_WORK = "has_pending_work";
        INGEST = "ingest";
        INGEST_COUNTER = "ingest_counter";
        INGEST_COUNTER_SET = "ingest_counter_set";
        INGEST_EXISTING = "ingest_existing";
        JOBS = "jobs";
        JOBS_QUEUED = "jobs_queued";
        JOBS_RUNNING = "jobs_running";
        JOBS_SETTLED = "jobs_settled";
        LANE_LIMIT = "lane_limit";
        LANE_LIMIT_ANY = "lane_limit_any";
        LANE_SIZE = "lane_size";
        LANE_SIZE_DEFAULT = "lane_size_default";
        NEXT_WAKE_LEASE = "next_wake_lease";
        NEXT_WAKE_OVERTAKEN = "next_wake_overtaken";
        NEXT_WAKE_READY = "next_wake_ready";
        PROBE = "probe";
        PURGE = "purge";
        PURGE_COMPLETED = "purge_completed";
        PUT_OUTCOME = "put_outcome";
        PUT_READY = "put_ready";
        READ = "read";
        RECOVER = "recover";
        RECOVER_BOOT = "recover_boot";
        RECOVER_CLAIM = "recover_claim";
        RECOVER_CLOCK = "recover_clock";
        RENEW = "renew";
        SCHEMA_APPLIED = "schema_applied";
        SCHEMA_EXISTS = "schema_exists";
        SCHEMA_VERSION = "schema_version";
        SET_LANE_LIMIT = "set_lane_limit";
        SET_LANE_LIMIT_NONE = "set_lane_limit_none";
        SETTLE = "settle";
        SETTLE_JOB = "settle_job";
        SETTLE_RECORDED = "settle_recorded";
        STANDS_CANCEL = "stands_cancel";
        STANDS_JOB = "stands_job";
        STANDS_LEASE = "stands_lease";
        STANDS_NO_LEASE = "stands_no_lease";
        STANDS_OUTCOME = "stands_outcome";
        STANDS_READY = "stands_ready";
        STATS_COMPLETED = "stats_completed";
        STATS_DUE = "stats_due";
        STATS_QUEUED = "stats_queued";
        STATS_RUNNING = "stats_running";
        STATS_SETTLED = "stats_settled";
        TAKE_JOB = "take_job";
        TAKE_LEASE = "take_lease";
        TAKE_OUTCOME = "take_outcome";
        TAKE_READY = "take_ready";
    }

    /// The migrations, in order; the version of a schema is the number of those that it has had.
    pub(crate) const MIGRATIONS: &[&str] = &[include_str!("../../python/bandog/sql/sqlite/migrations/0001.sql")];
}

/// The statements for PostgreSQL. `bandog.` and `SCHEMA bandog` in them stand for the schema, and are replaced once, at opening.
#[cfg(feature = "postgres")]
pub(crate) mod postgres {
    macro_rules! statements {
        ($($name:ident;)*) => {
            /// Every statement, for one schema.
            pub(crate) struct Statements {
                $(pub(crate) $name: String,)*
            }

            impl Statements {
                /// For a schema, given as it is to stand in SQL: quoted.
                pub(crate) fn new(quoted_schema: &str) -> Self {
                    Self {
                        $($name: in_schema(
                            include_str!(concat!("../../python/bandog/sql/postgres/", stringify!($name), ".sql")),
                            quoted_schema,
                        ),)*
                    }
                }
            }
        };
    }

    statements! {
        cancel;
        cancel_claim;
        cancel_ready;
        claim;
        claim_found;
        claim_level;
        dead_letters;
        fail_lane;
        fail_lane_default;
        find_jobs;
        find_outcome;
        has_pending_work;
        ingest;
        ingest_existing;
        jobs;
        jobs_queued;
        jobs_running;
        jobs_settled;
        lane_limit;
        lane_size;
        lane_size_default;
        next_wake;
        notify;
        notify_check;
        purge;
        put_outcome;
        put_ready;
        read;
        recover;
        recover_claim;
        recover_next;
        renew;
        renew_locked;
        schema_access;
        schema_exists;
        schema_identity;
        schema_lock;
        schema_version;
        set_lane_limit;
        set_lane_limit_none;
        settle;
        settle_claim;
        settle_recorded;
        stats_queues;
        stats_running;
        stats_settled;
        stats_snapshot;
        take_lease;
        take_outcome;
    }

    /// The migrations, in order; the version of a schema is the number of those that it has had.
    pub(crate) const MIGRATIONS: &[&str] = &[include_str!("../../python/bandog/sql/postgres/migrations/0001.sql")];

    /// What removes everything that they made: several statements.
    pub(crate) const UNINSTALL: &str = include_str!("../../python/bandog/sql/postgres/administration/uninstall.sql");

    /// A statement, for a schema that is given as it is to stand in SQL: quoted.
    pub(crate) fn in_schema(statement: &str, quoted_schema: &str) -> String {
        let mut text = String::with_capacity(statement.len());
        let mut before: Option<&str> = None;
        for part in statement.split("bandog") {
            if let Some(before) = before {
                let is_schema = part.starts_with('.') || before.ends_with("SCHEMA ");
                text.push_str(if is_schema { quoted_schema } else { "bandog" });
            }
            text.push_str(part);
            before = Some(part);
        }
        text
    }

    #[cfg(test)]
    mod tests {
        use super::in_schema;

        #[test]
        fn the_schema_is_replaced_in_one_pass_and_nothing_else_is() {
            let quoted = "\"SCHEMA bandog.\"";
            assert_eq!(in_schema("SELECT bandog.clock()", quoted), format!("SELECT {quoted}.clock()"));
            assert_eq!(in_schema("DROP SCHEMA bandog;", quoted), format!("DROP SCHEMA {quoted};"));
            assert_eq!(in_schema("'bandog migrations'", quoted), "'bandog migrations'");
            assert_eq!(in_schema("$bandog$bandog.x$bandog$", "b"), "$bandog$b.x$bandog$");
        }
    }
}
