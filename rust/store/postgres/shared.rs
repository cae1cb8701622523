//! What the links of one store share.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::access::Access;
use super::address::Address;
use super::levels::Levels;
use super::notify::Notices;
use super::options::PostgresOptions;
use super::plans::Lasting;
use super::transaction::Terms;
use crate::error::Error;
use crate::job::{Micros, SECOND};
use crate::seldom::Seldom;
use crate::store::Change;
use crate::store::changes::Changes;
use crate::store::sql::postgres::Statements;

/// How long a statement of a batch waits for a locked row. Whatever waits longer is taken out of the batch.
const BATCH_LOCK_WAIT: Duration = Duration::from_millis(50);

/// How long closing waits for calls under way where the server does not answer.
const CLOSING_PATIENCE: Duration = Duration::from_secs(3);

/// The same where it did not answer before either: a process that was told to stop has waited for it already.
const CLOSING_PATIENCE_IN_TROUBLE: Duration = Duration::from_millis(200);

/// How often the log may hear of trouble with the server.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(1);

/// What the links of one store share.
pub(super) struct Shared {
    address: Address,
    pub(super) sql: Statements,
    pub(super) options: PostgresOptions,
    levels: Mutex<Levels>,
    /// What the role may do, as it was at opening.
    pub(super) access: OnceLock<Access>,
    /// Who is told of changes.
    pub(super) changes: Changes,
    /// What other hosts are told of, and tell.
    pub(super) notices: Notices,
    complaints: Seldom,
    /// Told by a link that found no connection left.
    pub(super) connection_is_lacking: watch::Sender<()>,
    /// Since when the store is closing.
    closing_at: watch::Sender<Option<Instant>>,
    /// How often a link was found to be silent.
    silences: AtomicU64,
    /// Whether the last that was heard of the server is that it does not answer.
    is_in_trouble: AtomicBool,
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
            access: OnceLock::new(),
            changes: Changes::default(),
            notices: Notices::default(),
            complaints: Seldom::new(COMPLAINT_PAUSE),
            connection_is_lacking: watch::Sender::default(),
            closing_at: watch::Sender::default(),
            silences: AtomicU64::new(0),
            is_in_trouble: AtomicBool::new(false),
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

    /// Where the last claims ended.
    pub(super) fn levels(&self) -> MutexGuard<'_, Levels> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The terms of a transaction for one caller, who may wait for rows.
    pub(super) fn patient(&self, deadline: Instant) -> Terms {
        Terms { deadline, lock_wait: self.options.busy_timeout, snapshot: false }
    }

    /// The terms of a transaction for many callers.
    pub(super) fn batch(&self, deadline: Instant) -> Terms {
        Terms { deadline, lock_wait: self.batch_lock_wait(), snapshot: false }
    }

    fn batch_lock_wait(&self) -> Duration {
        BATCH_LOCK_WAIT.min(self.options.busy_timeout)
    }

    /// What a session of our own keeps: the terms that most transactions have from here on.
    pub(super) fn lasting(&self) -> Lasting {
        let limit = self.longest_call(self.lease.load(Ordering::Relaxed));
        Lasting { lock_wait: self.batch_lock_wait(), limit }
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
        Instant::now() + self.longest_call(lease)
    }

    fn longest_call(&self, lease: Micros) -> Duration {
        let half = u64::try_from(lease / 2).unwrap_or(0).max(1);
        self.options.call_timeout.min(Duration::from_micros(half))
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
        if queued {
            self.notices.queued();
        }
        self.changes.report(Change { queued, unknown: false });
    }

    /// Another host says that a job may be waiting that was not.
    pub(super) fn heard(&self) {
        self.changes.report(Change { queued: true, unknown: false });
    }

    /// Log trouble with the server, at most once a second: while it is down, every link meets the same. Once the store is
    /// closing, a link that breaks is nobody's trouble: a call that needed it has an answer of its own.
    pub(super) fn complain(&self, problem: &str) {
        if self.closing_at.borrow().is_some() {
            log::debug!("{problem}");
            return;
        }
        if self.complaints.is_due() {
            log::warn!("{problem}");
        }
    }

    /// How often a link was found to be silent.
    pub(super) fn silences(&self) -> u64 {
        self.silences.load(Ordering::SeqCst)
    }

    /// One did not answer in time: no other one is trusted before it has answered again. How often that was.
    pub(super) fn is_silent(&self) -> u64 {
        self.answers(false);
        self.turn_away()
    }

    /// Every link is made anew before its next use. How often that was.
    pub(super) fn turn_away(&self) -> u64 {
        self.silences.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether the server answers, as far as one link knows.
    pub(super) fn answers(&self, whether: bool) {
        self.is_in_trouble.store(!whether, Ordering::SeqCst);
    }

    /// From here on new calls are refused, and those under way are given up where the server does not answer.
    pub(super) fn close(&self) {
        self.closing_at.send_replace(Some(Instant::now()));
    }

    /// Whether the store is closing and the server has not answered for too long.
    pub(super) fn gives_up(&self) -> bool {
        self.closing_at.borrow().is_some_and(|at| at.elapsed() >= self.closing_patience())
    }

    fn closing_patience(&self) -> Duration {
        if self.is_in_trouble.load(Ordering::SeqCst) { CLOSING_PATIENCE_IN_TROUBLE } else { CLOSING_PATIENCE }
    }

    /// Wait for something, until the deadline, or until closing has taken too long.
    pub(super) async fn within<T>(&self, deadline: Instant, awaited: impl Future<Output = T>) -> Option<T> {
        let given_up = async {
            let mut closing_at = self.closing_at.subscribe();
            match closing_at.wait_for(Option::is_some).await.map(|at| *at) {
                Ok(Some(at)) => sleep_until(at + self.closing_patience()).await,
                _ => std::future::pending().await, // it is never told
            }
        };
        match select(pin!(timeout_at(deadline, awaited)), pin!(given_up)).await {
            Either::Left((answer, _)) => answer.ok(),
            Either::Right(_) => None,
        }
    }

    /// What a caller is told about a fault of a call that began at `asked_at`.
    pub(super) fn error(&self, fault: super::fault::Fault, asked_at: Instant) -> Error {
        match (&fault, self.access.get()) {
            (super::fault::Fault::Refused(super::fault::Refusal::Denied(message)), Some(access)) => {
                Error::StoreFailed {
                    target: self.target().to_owned(),
                    problem: access.refused(message, &self.options.schema),
                }
            }
            _ => fault.error(self.target(), asked_at.elapsed()),
        }
    }
}
