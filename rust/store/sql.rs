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
        INGEST = "ingest";
        INGEST_EXISTING = "ingest_existing";
        PUT_READY = "put_ready";
        PUT_OUTCOME = "put_outcome";
        CLAIM = "claim";
        CLAIM_JOB = "claim_job";
        CLAIM_LEASE = "claim_lease";
        CLAIM_PRIORITY = "claim_priority";
        CLAIM_QUEUE = "claim_queue";
        CLAIM_TAKE = "claim_take";
        FIND_CLAIM = "find_claim";
        FIND_JOB = "find_job";
        INGEST_COUNTER = "ingest_counter";
        INGEST_COUNTER_SET = "ingest_counter_set";
        RENEW = "renew";
        SETTLE = "settle";
        SETTLE_JOB = "settle_job";
        SETTLE_RECORDED = "settle_recorded";
        RECOVER = "recover";
        RECOVER_BOOT = "recover_boot";
        RECOVER_CLOCK = "recover_clock";
        RECOVER_TAKE = "recover_take";
        READ = "read";
        CLOCK = "clock";
        CLOCK_BOOT_SET = "clock_boot_set";
        CLOCK_OFFSET_SET = "clock_offset_set";
        CLOCK_START = "clock_start";
        SCHEMA_APPLIED = "schema_applied";
        SCHEMA_EXISTS = "schema_exists";
        SCHEMA_VERSION = "schema_version";
        STANDS_JOB = "stands_job";
        STANDS_LEASE = "stands_lease";
        STANDS_NO_LEASE = "stands_no_lease";
        HAS_PENDING_WORK = "has_pending_work";
        NEXT_WAKE_LEASE = "next_wake_lease";
        NEXT_WAKE_READY = "next_wake_ready";
    }

    /// The migrations, in order; the version of a schema is the number of those that it has had.
    pub(crate) const MIGRATIONS: &[&str] = &[include_str!("../../python/bandog/sql/sqlite/migrations/0001.sql")];
}
