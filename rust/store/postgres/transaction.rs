//! One transaction on a link, in as few round trips as its body allows.
//!
//! `BEGIN` goes out with the first statement and `COMMIT` with the last. Everything that the session could say otherwise
//! (isolation, search path, time limits) is said inside the transaction and ends with it, so that links through a pooler work
//! and share nothing. Where statements are prepared (see `plans`), the first one is a check that the session still has them.

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::fault::Fault;
use super::plans::Plans;

/// Every row is found by an index that was built for it, but for what reads all running claims. Where the statistics are of
/// another time, the planner takes a pile for a handful, and sorts it or compiles a program for it. `tests/plans/` reads this.
const PLANNING: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off";

/// A value to bind, and its type.
pub(super) type Bound<'a> = (&'a (dyn ToSql + Sync), Type);

/// The terms of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// When its caller stops waiting.
    pub(super) deadline: Instant,
    /// How long a statement waits for rows that others hold locked.
    pub(super) lock_wait: Duration,
    /// Several reads that are to agree with each other, and no write.
    pub(super) snapshot: bool,
}

/// An open transaction.
pub(super) struct Transaction<'link> {
    client: &'link Client,
    plans: &'link Plans,
    committed: Cell<bool>,
}

impl<'link> Transaction<'link> {
    /// Open one. The server hears of it together with the first statement.
    pub(super) fn begin(client: &'link Client, plans: &'link Plans, terms: Terms) -> Self {
        let left = terms.deadline.saturating_duration_since(Instant::now());
        let milliseconds = |duration: Duration| duration.as_millis().clamp(1, 86_400_000);
        let isolation = if terms.snapshot { "REPEATABLE READ READ ONLY" } else { "READ COMMITTED" };
        // Plans that fit any values: planning anew for each costs more than they could gain. In another session than the one
        // that has them, the division fails, and with it everything after it.
        let check = plans.session().map_or_else(String::new, |session| {
            format!(
                "; SET LOCAL plan_cache_mode = force_generic_plan; \
                 SELECT 1 / (pg_catalog.pg_backend_pid() = {session})::pg_catalog.int4"
            )
        });
        // The server gives up where the client has: a statement that waits for a lock would wait on behind a link that is
        // gone, and take the row when it comes free.
        let begin = format!(
            "BEGIN ISOLATION LEVEL {isolation}; \
             SET LOCAL search_path TO pg_catalog, pg_temp; \
             SET LOCAL lock_timeout = {}; \
             SET LOCAL statement_timeout = {}; \
             SET LOCAL idle_in_transaction_session_timeout = {}; \
             {PLANNING}{check}",
            milliseconds(terms.lock_wait),
            milliseconds(left),
            milliseconds(left + Duration::from_secs(1)),
        );
        // Sent now. Its answer is not waited for: if it fails, so does everything after it.
        let _ = client.batch_execute(&begin).now_or_never();
        Self { client, plans, committed: Cell::new(false) }
    }

    /// Run a statement.
    pub(super) async fn query(&self, sql: &str, params: &[Bound<'_>]) -> Result<Vec<Row>, Fault> {
        if let Some(statement) = self.plans.find(sql, params.iter().map(|(_, of)| of.clone())) {
            let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
            return self.client.query(&statement, &values).await.map_err(|error| Fault::from_driver(&error));
        }
        let params: Vec<_> = params.iter().map(|(value, of)| (*value, of.clone())).collect();
        self.client.query_typed(sql, &params).await.map_err(|error| Fault::from_driver(&error))
    }

    /// Prepare a statement, for the transactions after this one.
    pub(super) async fn prepare(&self, sql: &str, types: &[Type]) -> Result<Statement, Fault> {
        self.client.prepare_typed(sql, types).await.map_err(|error| Fault::from_driver(&error))
    }

    /// Run statements that return nothing, as they are.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.client.batch_execute(sql).await.map_err(|error| Fault::from_driver(&error))
    }

    /// Run the last statement, and commit with it.
    pub(super) async fn last(&self, sql: &str, params: &[Bound<'_>]) -> Result<Vec<Row>, Fault> {
        self.committing(self.query(sql, params)).await
    }

    /// Send `COMMIT` after the statements that `last` sends when it is first polled. Where one of them fails, the server
    /// rolls back instead.
    pub(super) async fn committing<T>(&self, last: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.committed.set(true);
        // In this order: `join` polls the first one first.
        let (answer, committed) = join(last, self.client.batch_execute("COMMIT")).await;
        let answer = answer?;
        committed.map_err(|error| Fault::from_driver(&error))?;
        Ok(answer)
    }

    /// End it, unless its last statement has.
    pub(super) async fn commit(&self) -> Result<(), Fault> {
        if self.committed.get() {
            return Ok(());
        }
        self.client.batch_execute("COMMIT").await.map_err(|error| Fault::from_driver(&error))
    }

    /// Undo it.
    pub(super) async fn roll_back(&self) {
        if !self.committed.get() {
            let _ = self.client.batch_execute("ROLLBACK").await;
        }
    }
}
