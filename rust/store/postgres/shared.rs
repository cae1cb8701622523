//! What the links of one store share.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::address::Address;
use super::levels::Levels;
use super::options::PostgresOptions;
use super::transaction::Terms;
use crate::error::Error;
use crate::job::{Micros, SECOND};
use crate::store::Change;
use crate::store::changes::Changes;
use crate::store::sql::postgres::Statements;

/// How long a statement of a batch waits for a locked row. Whatever waits longer is taken out of the batch.
const BATCH_LOCK_WAIT: Duration = Duration::from_millis(50);

/// How long closing waits for calls under way where the server does not answer.
const CLOSING_PATIENCE: Duration = Duration::from_secs(3);

/// How often the log may hear of trouble with the server.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(1);

/// What the links of one store share.
pub(super) struct Shared {
    address: Address,
    pub(super) sql: Statements,
    pub(super) options: PostgresOptions,
    pub(super) levels: Mutex<Levels>,
    /// Who is told of changes.
    pub(super) changes: Changes,
    complained_at: Mutex<Option<Instant>>,
    closing_at: Mutex<Option<Instant>>,
    closing: AtomicBool,
    /// The lease of the latest claim, which bounds how long its settlement may take.
    lease: AtomicI64,
}

impl Shared {
    pub(super) fn new(address: Address, options: PostgresOptions) -> Self {
        Self {
            address,
            sql: Statements::new(&options.schema.quoted()),
            options,
            levels: Mutex::default(),
            changes: Changes::default(),
            complained_at: Mutex::default(),
            closing_at: Mutex::default(),
            closing: AtomicBool::new(false),
            lease: AtomicI64::new(Micros::MAX),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// The server, as messages name it.
    pub(super) fn target(&self) -> &str {
        &self.address.target
    }

    /// The terms of a transaction for one caller, who may wait for rows.
    pub(super) fn patient(&self, deadline: Instant) -> Terms {
        Terms { deadline, lock_wait: self.options.busy_timeout, snapshot: false }
    }

    /// The terms of a transaction for many callers.
    pub(super) fn batch(&self, deadline: Instant) -> Terms {
        Terms { deadline, lock_wait: BATCH_LOCK_WAIT.min(self.options.busy_timeout), snapshot: false }
    }

    /// The terms of several reads.
    pub(super) fn snapshot(&self, deadline: Instant) -> Terms {
        Terms { deadline, lock_wait: self.options.busy_timeout, snapshot: true }
    }

    /// When a call that begins now gives up.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.options.call_timeout
    }

    /// When a call about claims of this lease gives up: at half of it, so that the claim still holds when the caller hears.
    pub(super) fn lease_deadline(&self, lease: Micros) -> Instant {
        let half = u64::try_from(lease / 2).unwrap_or(0).max(1);
        Instant::now() + self.options.call_timeout.min(Duration::from_micros(half))
    }

    /// When a settlement gives up.
    pub(super) fn settle_deadline(&self) -> Instant {
        self.lease_deadline(self.lease.load(Ordering::Relaxed))
    }

    /// Remember how long claims hold now.
    pub(super) fn claims_for(&self, lease: Micros) {
        self.lease.store(lease.max(SECOND / 2), Ordering::Relaxed);
    }

    /// Something was changed durably; `queued`: a job may be waiting that was not.
    pub(super) fn changed(&self, queued: bool) {
        self.changes.report(Change { queued, unknown: false });
    }

    /// Log trouble with the server, at most once a second: while it is down, every link meets the same.
    pub(super) fn complain(&self, problem: &str) {
        let mut complained_at = self.complained_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if complained_at.is_none_or(|at| now.duration_since(at) >= COMPLAINT_PAUSE) {
            *complained_at = Some(now);
            drop(complained_at);
            log::warn!("{problem}");
        }
    }

    /// From here on new calls are refused, and those under way are given up where the server does not answer.
    pub(super) fn close(&self) {
        *self.closing_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Until when waiting for the server makes sense.
    pub(super) fn closing_deadline(&self) -> Instant {
        let closing_at = *self.closing_at.lock().unwrap_or_else(PoisonError::into_inner);
        closing_at.map_or_else(|| Instant::now() + Duration::from_secs(86_400), |at| at + CLOSING_PATIENCE)
    }

    /// Whether the store is closing and the server has not answered for too long.
    pub(super) fn gives_up(&self) -> bool {
        self.closing.load(Ordering::SeqCst) && Instant::now() >= self.closing_deadline()
    }

    /// What a caller is told about a fault of a call that began at `asked_at`.
    pub(super) fn error(&self, fault: super::fault::Fault, asked_at: Instant) -> Error {
        fault.error(self.target(), asked_at.elapsed())
    }
}
