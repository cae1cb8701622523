//! What an operation sees of the open write transaction.

use std::cell::{Cell, RefCell};

use rusqlite::{CachedStatement, Connection};

use crate::clock::Instants;
use crate::error::Result;
use crate::store::sql;
use crate::store::sqlite::{failure, steps};

/// One open write transaction, and the time that was read after its lock was had.
pub(super) struct Transaction<'connection> {
    connection: &'connection Connection,
    target: &'connection str,
    now: Instants,
    landmark: RefCell<Option<Landmark>>,
    queued: Cell<bool>,
}

/// Something that the transaction wrote, by which to tell after a failed COMMIT whether it is there. One is enough: the
/// requests of a group become visible together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Landmark {
    /// A job with this order number exists.
    Job(i64),
    /// The job runs under this token until this uptime (`None` under a liveness probe).
    Lease(i64, String, Option<i64>),
    /// The job does not run under this token.
    NoLease(i64, String),
    /// The job is queued.
    Ready(i64),
    /// The job is settled.
    Outcome(i64),
    /// The job's cancellation was asked for.
    CancelRequest(i64),
    /// No job has this order number.
    NoJob(i64),
}

impl<'connection> Transaction<'connection> {
    pub(super) fn new(connection: &'connection Connection, target: &'connection str, now: Instants) -> Self {
        Self { connection, target, now, landmark: RefCell::new(None), queued: Cell::new(false) }
    }

    /// The time of this transaction.
    pub(super) fn now(&self) -> Instants {
        self.now
    }

    /// The file, as messages name it.
    pub(super) fn target(&self) -> &'connection str {
        self.target
    }

    /// Whether the wall clock was set back, and no write transaction has noticed yet.
    pub(super) fn clock_was_set_back(&self) -> Result<bool> {
        steps::set_back(self.connection, self.now).map_err(|error| self.failed(&error))
    }

    /// Prepare a statement, or take it from the connection's cache.
    pub(super) fn prepare(&self, sql: &str) -> Result<CachedStatement<'connection>> {
        self.connection.prepare_cached(sql).map_err(|error| self.failed(&error))
    }

    /// The engine's error for a statement's.
    pub(super) fn failed(&self, error: &rusqlite::Error) -> crate::error::Error {
        failure::error(self.target, error, std::time::Duration::ZERO)
    }

    /// Remember something that was written.
    pub(super) fn wrote(&self, landmark: impl FnOnce() -> Landmark) {
        let mut remembered = self.landmark.borrow_mut();
        if remembered.is_none() {
            *remembered = Some(landmark());
        }
    }

    /// A job waits now that did not wait before.
    pub(super) fn queued(&self) {
        self.queued.set(true);
    }

    /// Whether any does. True also where that was rolled back: it is only a hint.
    pub(super) fn has_queued(&self) -> bool {
        self.queued.get()
    }

    /// Forget it: the request that wrote it was rolled back.
    pub(super) fn set_landmark(&self, landmark: Option<Landmark>) {
        *self.landmark.borrow_mut() = landmark;
    }

    /// What was remembered.
    pub(super) fn landmark(&self) -> Option<Landmark> {
        self.landmark.borrow().clone()
    }
}

impl Landmark {
    /// Whether it is there, as a fresh transaction sees it.
    pub(super) fn stands(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let exists =
            |sql: &str, params: &[&dyn rusqlite::ToSql]| connection.query_row(sql, params, |row| row.get::<_, bool>(0));
        match self {
            Self::Job(number) => exists(sql::sqlite::STANDS_JOB, &[number]),
            Self::Lease(number, token, until) => exists(sql::sqlite::STANDS_LEASE, &[number, token, until]),
            Self::NoLease(number, token) => exists(sql::sqlite::STANDS_NO_LEASE, &[number, token]),
            Self::Ready(number) => exists(sql::sqlite::STANDS_READY, &[number]),
            Self::Outcome(number) => exists(sql::sqlite::STANDS_OUTCOME, &[number]),
            Self::CancelRequest(number) => exists(sql::sqlite::STANDS_CANCEL, &[number]),
            Self::NoJob(number) => exists(sql::sqlite::STANDS_JOB, &[number]).map(|exists| !exists),
        }
    }
}
