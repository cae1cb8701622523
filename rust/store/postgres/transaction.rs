//! One transaction on a link, in as few round trips as its body allows.
//!
//! `BEGIN` goes out with the first statement and `COMMIT` with the last. Everything that the session could say otherwise
//! (isolation, search path, time limits) is said inside the transaction and ends with it, so that links through a pooler work
//! and share nothing. Where the session is the link's own (see `plans`), it was said once, and a transaction of one statement
//! is that statement. Where it is not, and statements are prepared all the same, the first one is a check that the session
//! still has them.

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, try_join_all};
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::fault::Fault;
use super::plans::Plans;

/// Every row is found by an index that was built for it, but for what reads all running claims. Where the statistics are of
/// another time, the planner takes a pile for a handful, and sorts it or compiles a program for it. `tests/plans/` reads this.
pub(super) const PLANNING: &str =
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off";

/// Names mean what they mean to the server, whatever schemas its users have.
pub(super) const SEARCH_PATH: &str = "SET LOCAL search_path TO pg_catalog, pg_temp";

/// Plans that fit any values, where they are kept: planning anew for each costs more than it could gain.
pub(super) const PLAN_ONCE: &str = "SET LOCAL plan_cache_mode = force_generic_plan";

/// How long a statement waits for rows that others hold locked, and how long it may take. The server gives up where the client
/// has: a statement that waits for a lock would wait on behind a link that is gone, and take the row when it comes free.
pub(super) fn limits(lock_wait: Duration, limit: Duration) -> String {
    let milliseconds = |duration: Duration| duration.as_millis().clamp(1, 86_400_000);
    format!(
        "SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}; \
         SET LOCAL idle_in_transaction_session_timeout = {}",
        milliseconds(lock_wait),
        milliseconds(limit),
        milliseconds(limit + Duration::from_secs(1)),
    )
}

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

/// A transaction, open or about to be.
pub(super) struct Transaction<'link> {
    client: &'link Client,
    plans: &'link Plans,
    terms: Terms,
    begun: Cell<bool>,
    committed: Cell<bool>,
}

impl<'link> Transaction<'link> {
    /// Make one. The server hears of it together with the first statement.
    pub(super) fn new(client: &'link Client, plans: &'link Plans, terms: Terms) -> Self {
        Self { client, plans, terms, begun: Cell::new(false), committed: Cell::new(false) }
    }

    fn left(&self) -> Duration {
        self.terms.deadline.saturating_duration_since(Instant::now())
    }

    /// Open it, unless it is.
    fn begin(&self) {
        if self.begun.replace(true) {
            return;
        }
        let Terms { lock_wait, snapshot, .. } = self.terms;
        let isolation = if snapshot { "REPEATABLE READ READ ONLY" } else { "READ COMMITTED" };
        let mut begin = vec![format!("BEGIN ISOLATION LEVEL {isolation}")];
        let left = self.left();
        match self.plans.lasting() {
            Some(lasting) if lasting.covers(&self.terms, left) => {}
            Some(_) => begin.push(limits(lock_wait, left)),
            None => begin.extend([SEARCH_PATH.into(), limits(lock_wait, left), PLANNING.into()]),
        }
        if let (None, Some(session)) = (self.plans.lasting(), self.plans.session()) {
            // In another session the division fails, and with it everything after it.
            let check = format!("SELECT 1 / (pg_catalog.pg_backend_pid() = {session})::pg_catalog.int4");
            begin.extend([PLAN_ONCE.into(), check]);
        }
        // Sent now. Its answer is not waited for: if it fails, so does everything after it.
        let _ = self.client.batch_execute(&begin.join("; ")).now_or_never();
    }

    /// Run a statement.
    pub(super) async fn query(&self, sql: &str, params: &[Bound<'_>]) -> Result<Vec<Row>, Fault> {
        self.begin();
        if let Some(statement) = self.plans.find(sql, params.iter().map(|(_, of)| of.clone())) {
            let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
            return self.client.query(&statement, &values).await.map_err(|error| Fault::from_driver(&error));
        }
        let params: Vec<_> = params.iter().map(|(value, of)| (*value, of.clone())).collect();
        self.client.query_typed(sql, &params).await.map_err(|error| Fault::from_driver(&error))
    }

    /// Prepare a statement, for the transactions after this one.
    pub(super) async fn prepare(&self, sql: &str, types: &[Type]) -> Result<Statement, Fault> {
        self.begin();
        self.client.prepare_typed(sql, types).await.map_err(|error| Fault::from_driver(&error))
    }

    /// Run statements that return nothing, as they are.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.begin();
        self.client.batch_execute(sql).await.map_err(|error| Fault::from_driver(&error))
    }

    /// Run the last statement, and commit with it.
    pub(super) async fn last(&self, sql: &str, params: &[Bound<'_>]) -> Result<Vec<Row>, Fault> {
        self.ending(self.query(sql, params)).await
    }

    /// Commit with the one statement that `last` sends. Where it is the first as well, and the session says all that is to
    /// be said, the transaction is the one that the server makes for it.
    pub(super) async fn ending<T>(&self, last: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let alone =
            !self.begun.get() && self.plans.lasting().is_some_and(|lasting| lasting.covers(&self.terms, self.left()));
        if alone {
            self.begun.set(true);
            self.committed.set(true);
            return last.await;
        }
        self.committing(last).await
    }

    /// The same for several statements, each of which one future sends.
    pub(super) async fn ending_all<T, F>(&self, mut last: impl ExactSizeIterator<Item = F>) -> Result<Vec<T>, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        match last.len() {
            1 => self.ending(try_join_all(last.next())).await,
            _ => self.committing(try_join_all(last)).await,
        }
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
        if self.committed.get() || !self.begun.get() {
            return Ok(());
        }
        self.client.batch_execute("COMMIT").await.map_err(|error| Fault::from_driver(&error))
    }

    /// Undo it.
    pub(super) async fn roll_back(&self) {
        if self.begun.get() && !self.committed.get() {
            let _ = self.client.batch_execute("ROLLBACK").await;
        }
    }
}
