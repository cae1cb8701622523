//! Group commit: all waiting requests in one transaction, led by one of the threads that wait.
//!
//! The commit is the cost (a disk flush), so whoever gets the writer carries out everything that is queued, each request
//! in a savepoint of its own so that one failure spoils no other, commits once, and answers all. With one caller nothing is
//! added but the commit itself: no second thread, no delay. The thread of [`Committer::run`] leads only where nobody waits.
//!
//! Locks, in the order in which they are taken: writer, then (inside the gate) SQLite's own, then the queue. No reply is
//! delivered under any of them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::failure::{self, Kind};
use super::gated::Gated;
use super::open::{FileIdentity, Opened};
use super::pause::Pause;
use super::request::{Request, Task};
use super::transaction::Transaction;
use super::{sharing, steps};
use crate::clock::Clock;
use crate::completion::{Completion, Driver};
use crate::error::{Error, Result};
use crate::options::SqliteOptions;
use crate::store::Change;
use crate::store::changes::Changes;

/// How long a leader waits at most for those who shared the last group: about what a flush to the disk takes.
const COMPANY_PATIENCE: Duration = Duration::from_micros(200);

/// How long a request waits for the write lock at most once the store is being closed: a worker that is told to stop must not
/// be held up by a lock that somebody else keeps.
const CLOSING_PATIENCE: Duration = Duration::from_millis(300);

/// How many requests one transaction carries at most: it bounds how long the lock is held and how late an answer comes.
const LARGEST_GROUP: usize = 1_000;

/// The one connection that writes.
pub(super) struct Writer {
    pub(super) connection: Gated,
    /// What the last group changed, if anything.
    pub(super) changed: Cell<Option<Change>>,
    /// SQLite's count of commits by others, when it was last looked at.
    pub(super) others: Cell<i64>,
}

type Finished = Vec<(Box<dyn Request>, Option<Error>)>;

#[derive(Default)]
struct Queue {
    pending: VecDeque<Box<dyn Request>>,
    poked: bool,
    closing: bool,
    /// How many requests a leader waits for, 0 while none does.
    wanted: usize,
    /// How many the last group had.
    last_group: usize,
}

/// The queue of requests, and the writer that one thread at a time holds.
pub(super) struct Committer {
    target: String,
    file: FileIdentity,
    clock: Arc<dyn Clock>,
    busy_timeout: Duration,
    writer: Mutex<Option<Writer>>,
    queue: Mutex<Queue>,
    poked: Condvar,
    arrived: Condvar,
    /// Told after each group that wrote something.
    changes: Changes,
}

impl Committer {
    pub(super) fn new(opened: Opened, options: &SqliteOptions) -> Self {
        Self {
            target: opened.target,
            file: opened.file,
            clock: Arc::clone(&options.clock),
            busy_timeout: options.busy_timeout,
            writer: Mutex::new(Some(opened.writer)),
            queue: Mutex::default(),
            poked: Condvar::new(),
            arrived: Condvar::new(),
            changes: Changes::default(),
        }
    }

    /// Queue a piece of work. It runs once somebody waits for it, or at once where nobody will.
    pub(super) fn submit<T, F>(self: &Arc<Self>, work: F) -> Completion<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        let driver: Arc<dyn Driver> = Arc::<Self>::clone(self);
        let (reply, completion) = Completion::driven(driver);
        let mut queue = self.queue();
        if queue.closing {
            drop(queue);
            reply.send(Err(Error::Closed));
        } else {
            let asked_at = Instant::now();
            if queue.wanted > 0 && queue.pending.len() + 1 >= queue.wanted {
                self.arrived.notify_one();
            }
            queue.pending.push_back(Box::new(Task { work: Some(work), result: None, reply, asked_at }));
        }
        completion
    }

    /// The body of the thread that leads where nobody waits.
    pub(super) fn run(&self) {
        loop {
            let mut queue = self.queue();
            while !queue.poked && !queue.closing {
                queue = self.poked.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.poked = false;
            if queue.closing {
                return;
            }
            drop(queue);
            self.lead_until_empty();
        }
    }

    /// Carry out what is queued, refuse what comes after, and close the connection.
    pub(super) fn close(&self) {
        self.queue().closing = true;
        self.poked.notify_all();
        self.lead_until_empty();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A transaction that failed meanwhile has put requests back; nobody else would answer them now.
        self.lead_until_empty();
        if let Some(writer) = writer
            && self.file.check(&self.target).is_err()
        {
            // SQLite leaves the log of a file that lost its name lying there, and whoever opens the new file of that name
            // would find it and replay it. Emptied into the old file it harms nobody.
            let _gate = sharing::enter();
            empty_log(&writer.connection);
        }
    }

    /// Who is told of changes.
    pub(super) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The file of the log.
    pub(super) fn log_path(&self) -> PathBuf {
        PathBuf::from(format!("{}-wal", self.target))
    }

    /// Whether others have committed since the last time this was asked.
    pub(super) fn changed_by_others(&self) -> bool {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = writer.as_ref() else { return false };
        let commits = {
            let _gate = sharing::enter();
            open.connection
                .prepare_cached("PRAGMA data_version")
                .and_then(|mut pragma| pragma.query_row([], |row| row.get(0)))
        };
        let changed = commits.is_ok_and(|commits| open.others.replace(commits) != commits);
        drop(writer);
        self.hand_over(); // somebody may have found the writer taken, and gone to sleep
        changed
    }

    /// The file that it writes.
    pub(super) fn file(&self) -> &FileIdentity {
        &self.file
    }

    fn lead_until_empty(&self) {
        while !self.queue().pending.is_empty() {
            let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            self.lead(writer, Instant::now() + Duration::from_millis(100));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lead(&self, writer: MutexGuard<'_, Option<Writer>>, deadline: Instant) {
        let finished = match writer.as_ref() {
            Some(writer) => self.commit_group(writer, deadline),
            None => self.refuse_all(&Error::Closed),
        };
        let changed = writer.as_ref().and_then(|writer| writer.changed.take());
        drop(writer);
        self.hand_over();
        for (request, failure) in finished {
            request.finish(failure);
        }
        if let Some(change) = changed {
            self.changes.report(change);
        }
    }

    /// After the writer was let go: whoever failed to get it before may be asleep with requests queued.
    fn hand_over(&self) {
        let queue = self.queue();
        if !queue.pending.is_empty() && !queue.pending.iter().any(|request| request.wake()) {
            drop(queue);
            self.poke();
        }
    }

    fn refuse_all(&self, error: &Error) -> Finished {
        self.queue().pending.drain(..).map(|request| (request, Some(error.clone()))).collect()
    }

    /// Those that have waited for the write lock for the whole timeout.
    fn take_overdue(&self) -> Finished {
        let mut queue = self.queue();
        let patience = if queue.closing { self.busy_timeout.min(CLOSING_PATIENCE) } else { self.busy_timeout };
        let mut overdue = Vec::new();
        while queue.pending.front().is_some_and(|request| request.asked_at().elapsed() >= patience) {
            if let Some(request) = queue.pending.pop_front() {
                let error = failure::busy(&self.target, request.asked_at().elapsed());
                overdue.push((request, Some(error)));
            }
        }
        overdue
    }

    /// Those who got their answers from the last group are about to ask again. Without waiting for them a moment, every other
    /// group has one request: 16 threads had four times the speed of one, and have seven with it on two busy cores. A lone caller waits for
    /// nobody.
    fn await_company(&self) {
        let mut queue = self.queue();
        let wanted = queue.last_group;
        let until = Instant::now() + COMPANY_PATIENCE;
        while wanted > 1 && queue.pending.len() < wanted && !queue.closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue.wanted = wanted;
            queue = self.arrived.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.wanted = 0;
    }

    /// One transaction. Returns the requests that have their answer; those that were not reached stay queued.
    fn commit_group(&self, writer: &Writer, deadline: Instant) -> Finished {
        let mut pause = Pause::default();
        self.await_company();
        let gate = loop {
            if self.queue().pending.is_empty() {
                return Vec::new();
            }
            if let Err(error) = self.file.check(&self.target) {
                return self.refuse_all(&error);
            }
            let gate = sharing::enter();
            if !writer.connection.is_autocommit() {
                // Only after a panic in the middle of a group.
                let _ = writer.execute("ROLLBACK");
            }
            match writer.execute("BEGIN IMMEDIATE") {
                Ok(()) => break gate,
                Err(error) if failure::kind(&error) == Kind::Busy => {
                    drop(gate);
                    let overdue = self.take_overdue();
                    if !overdue.is_empty() || Instant::now() >= deadline {
                        return overdue;
                    }
                    pause.sleep();
                }
                Err(error) => {
                    let error = failure::error(&self.target, &error, Duration::ZERO);
                    return self.refuse_all(&error);
                }
            }
        };
        let finished = self.carry_out(writer);
        if finished.iter().any(|(_, failure)| matches!(failure, Some(Error::StorageFull { .. }))) {
            empty_log(&writer.connection);
            // From here on the log is kept small: it empties itself into the file at every 1000 pages, and on a disk that is
            // nearly full it would eat what somebody has just freed before it got there.
            let _ = writer.connection.query_row("PRAGMA wal_autocheckpoint = 64", [], |_| Ok(()));
        }
        drop(gate);
        finished
    }

    fn carry_out(&self, writer: &Writer) -> Finished {
        let now = self.clock.now();
        let failed = |error: &rusqlite::Error| failure::error(&self.target, error, Duration::ZERO);
        let transaction = Transaction::new(&writer.connection, &self.target, now);
        let clock_set = match steps::look(&writer.connection, now) {
            Ok(clock_set) => clock_set,
            Err(error) => {
                let _ = writer.execute("ROLLBACK");
                return self.refuse_all(&failed(&error));
            }
        };

        let mut finished: Finished = Vec::new();
        loop {
            let batch: Vec<_> = {
                let mut queue = self.queue();
                let room = LARGEST_GROUP.saturating_sub(finished.len()).min(queue.pending.len());
                queue.pending.drain(..room).collect()
            };
            if batch.is_empty() {
                break;
            }
            // The savepoint is spared where there is nobody to protect.
            let alone = finished.is_empty() && batch.len() == 1 && !clock_set;
            let mut batch = batch.into_iter();
            while let Some(mut request) = batch.next() {
                let landmark = transaction.landmark();
                let outcome = match alone {
                    true => request.run(&transaction),
                    false => writer.execute("SAVEPOINT request").map_err(|error| failed(&error)).and_then(|()| {
                        request.run(&transaction)?;
                        writer.execute("RELEASE request").map_err(|error| failed(&error))
                    }),
                };
                let Err(error) = outcome else {
                    finished.push((request, None));
                    continue;
                };
                transaction.set_landmark(landmark);
                let undone = !alone
                    && !writer.connection.is_autocommit()
                    && writer.execute("ROLLBACK TO request").is_ok()
                    && writer.execute("RELEASE request").is_ok();
                finished.push((request, Some(error.clone())));
                if !undone {
                    // The whole transaction is gone (a full disk, an I/O error), or goes now: no request of it has an
                    // effect, and those not reached yet wait for the next one.
                    if !writer.connection.is_autocommit() {
                        let _ = writer.execute("ROLLBACK");
                    }
                    self.put_back(batch.collect());
                    return fail(finished, &error);
                }
            }
        }
        self.queue().last_group = finished.len();
        match writer.execute("COMMIT") {
            Ok(()) => {
                writer
                    .changed
                    .set(transaction.landmark().map(|_| Change { queued: transaction.has_queued(), unknown: false }));
                finished
            }
            Err(error) => self.after_failed_commit(writer, &transaction, finished, &failed(&error)),
        }
    }

    fn put_back(&self, requests: Vec<Box<dyn Request>>) {
        let mut queue = self.queue();
        for request in requests.into_iter().rev() {
            queue.pending.push_front(request);
        }
    }

    /// A COMMIT that failed is uncertain: look whether its writes are there before answering.
    fn after_failed_commit(
        &self,
        writer: &Writer,
        transaction: &Transaction<'_>,
        finished: Finished,
        error: &Error,
    ) -> Finished {
        if !writer.connection.is_autocommit() {
            let _ = writer.execute("ROLLBACK");
        }
        let Some(landmark) = transaction.landmark() else {
            return finished; // nothing was written, so nothing was lost
        };
        match landmark.stands(&writer.connection) {
            Ok(true) => finished,
            Ok(false) => fail(finished, error),
            Err(unreadable) => fail(
                finished,
                &Error::StoreFailed {
                    target: self.target.clone(),
                    problem: format!(
                        "{error}; and reading it again failed too ({unreadable}), so that it is not known whether the \
                         change was stored. Read the job before trying again"
                    ),
                },
            ),
        }
    }
}

/// Move what the log holds into the file, as far as readers allow, and give its room back.
fn empty_log(connection: &Connection) {
    let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
}

/// Every request that had succeeded so far failed with the transaction; those that failed by themselves keep their reason.
fn fail(finished: Finished, error: &Error) -> Finished {
    finished.into_iter().map(|(request, own)| (request, Some(own.unwrap_or_else(|| error.clone())))).collect()
}

#[cfg(test)]
impl Committer {
    /// Have every COMMIT fail: the hook turns it into a rollback.
    #[allow(unsafe_code, reason = "rusqlite's hook needs a feature that nothing but this test would use")]
    pub(super) fn set_commits_fail(&self, fail: bool) {
        unsafe extern "C" fn refuse(_: *mut std::ffi::c_void) -> std::ffi::c_int {
            1
        }
        let writer = self.writer.lock().unwrap();
        let hook: Option<unsafe extern "C" fn(*mut std::ffi::c_void) -> std::ffi::c_int> =
            if fail { Some(refuse) } else { None };
        // SAFETY: the connection is open and used by this thread alone; the hook touches nothing.
        unsafe {
            rusqlite::ffi::sqlite3_commit_hook(
                writer.as_ref().unwrap().connection.handle(),
                hook,
                std::ptr::null_mut(),
            );
        }
    }

    /// Which statements SQLite has prepared anew since they were first used, and how often.
    pub(super) fn prepared_again(&self, all: &[(&'static str, &'static str)]) -> Vec<(&'static str, i32)> {
        let writer = self.writer.lock().unwrap();
        let connection = &writer.as_ref().unwrap().connection;
        let times = |text| connection.prepare_cached(text).unwrap().get_status(rusqlite::StatementStatus::RePrepare);
        all.iter().map(|(name, text)| (*name, times(text))).filter(|(_, times)| *times > 0).collect()
    }

    /// Have the file be full at so many pages.
    pub(super) fn set_page_limit(&self, pages: u32) {
        let writer = self.writer.lock().unwrap();
        let connection = &writer.as_ref().unwrap().connection;
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    }
}

impl Driver for Committer {
    fn drive(&self, deadline: Instant) -> bool {
        if self.queue().pending.is_empty() {
            return false;
        }
        let writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.lead(writer, deadline);
        true
    }

    fn poke(&self) {
        self.queue().poked = true;
        self.poked.notify_one();
    }
}

impl Writer {
    pub(super) fn execute(&self, statement: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(statement)?.execute([]).map(|_| ())
    }
}
