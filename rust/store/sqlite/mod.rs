//! The store on an SQLite file.
//!
//! - `open`: what is refused, the settings of a connection, the schema
//! - `sharing`: the rules under which another SQLite library in this process may use the same file
//! - `group`, `request`, `pause`: the write transaction that all waiting requests share
//! - `steps`: when a clock was set, or the machine started again
//! - `ingest`, `claim`, `renew`, `settle`, `recover`, `cancel`, `lane`, `requeue` (and purge), `read`, `list`: the operations,
//!   each inside an open transaction
//! - `runtime_lock`: who runs the jobs of a file
//! - `watch`: noticing what others commit
//! - `rows`, `failure`, `filesystem`, `gated`, `transaction`: what they have in common

mod cancel;
mod claim;
mod failure;
mod filesystem;
mod gated;
mod group;
mod ingest;
mod lane;
mod list;
mod open;
mod pause;
mod read;
mod recover;
mod renew;
mod request;
mod requeue;
mod rows;
mod runtime_lock;
mod settle;
pub(crate) mod sharing;
mod steps;
#[cfg(test)]
mod tests;
mod transaction;
mod watch;

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::gated::Gated;
use self::group::Committer;
use self::pause::Pause;
use self::transaction::Transaction;
use self::watch::Watch;
use super::{Exchanged, Ingested, Runtime, RuntimeLock, Store, Subscriber, Subscription};
use crate::clock::Clock;
use crate::completion::{Completion, Spawn};
use crate::error::{Error, Result};
use crate::fork::Generation;
use crate::job::{
    ClaimKey, ClaimName, ClaimRequest, Claimed, JobRecord, Micros, NewJob, Recovered, Renewal, Report, Settlement,
};
use crate::management::{Cancellation, Cursor, FailedLane, JobsRequest, Page, Probed, PurgeRequest, Requeue, Stats};
use crate::options::SqliteOptions;

/// How many idle connections for reading are kept.
const IDLE_READERS: usize = 4;

/// Jobs in an SQLite file.
///
/// Threads: the callers lead the write transactions; `bandog-commit` leads where nobody waits; `bandog-read` and
/// `bandog-watch`, started on first use, read for callbacks and notice what other processes commit.
pub struct SqliteStore {
    shared: Arc<Shared>,
    commit_thread: Mutex<Option<JoinHandle<()>>>,
    /// Started with the first subscription.
    watch: Mutex<Option<Watch>>,
    opened_in: Generation,
}

struct Shared {
    committer: Arc<Committer>,
    readers: Mutex<Readers>,
    reading: Mutex<Option<Sender<Work>>>,
    target: String,
    clock: Arc<dyn Clock>,
    busy_timeout: Duration,
}

/// What the thread for reading is handed.
type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Readers {
    idle: Vec<Gated>,
    closed: bool,
}

impl SqliteStore {
    /// Open a file; one that is missing, or that has none of our tables yet, gets them.
    ///
    /// # Errors
    /// `CannotOpen` for what is not a usable file, `SchemaMismatch` for tables of another version, `StoreBusy` where
    /// another connection kept the lock.
    pub fn open(path: &Path, options: &SqliteOptions) -> Result<Self> {
        let opened = open::open(path, options)?;
        let target = opened.target.clone();
        let committer = Arc::new(Committer::new(opened, options));
        let leader = Arc::clone(&committer);
        let commit_thread = std::thread::Builder::new()
            .name("bandog-commit".into())
            .spawn(move || leader.run())
            .map_err(|error| Error::StoreFailed { target: target.clone(), problem: error.to_string() })?;
        let shared = Shared {
            committer,
            readers: Mutex::default(),
            reading: Mutex::default(),
            target,
            clock: Arc::clone(&options.clock),
            busy_timeout: options.busy_timeout,
        };
        Ok(Self {
            shared: Arc::new(shared),
            commit_thread: Mutex::new(Some(commit_thread)),
            watch: Mutex::default(),
            opened_in: Generation::current(),
        })
    }

    fn write<T, F>(&self, work: F) -> Completion<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        if let Err(error) = self.opened_in.check() {
            return Completion::ready(Err(error));
        }
        self.shared.committer.submit(work)
    }

    /// Have changes by others noticed, from the first subscriber on.
    fn watch(&self) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.is_none() && self.opened_in.is_current() {
            *watch = Watch::start(&self.shared.committer)
                .inspect_err(|error| log::warn!("changes by other processes are found by polling alone: {error}"))
                .ok();
        }
    }

    fn query<T, F>(&self, work: F) -> Completion<T>
    where
        T: Send + 'static,
        F: Fn(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        if let Err(error) = self.opened_in.check() {
            return Completion::ready(Err(error));
        }
        let shared = Arc::clone(&self.shared);
        let spawn: Arc<dyn Spawn> = Arc::<Shared>::clone(&self.shared);
        Completion::lazy(move || shared.read(work), spawn)
    }
}

impl Shared {
    /// Read in this thread. Only a file that is being recovered from a crash, or closed by its last user, keeps a reader
    /// waiting.
    fn read<T>(&self, work: impl Fn(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let started = Instant::now();
        let mut pause = Pause::default();
        loop {
            match self.read_once(&work) {
                Err(Error::StoreBusy { .. }) if started.elapsed() < self.busy_timeout => pause.sleep(),
                Err(Error::StoreBusy { target, .. }) => return Err(failure::busy(&target, started.elapsed())),
                other => return other,
            }
        }
    }

    /// On a connection that no other thread uses meanwhile.
    fn read_once<T>(&self, work: impl Fn(&Transaction<'_>) -> Result<T>) -> Result<T> {
        self.committer.file().check(&self.target)?;
        let _gate = sharing::enter();
        let idle = {
            let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            if readers.closed {
                return Err(Error::Closed);
            }
            readers.idle.pop()
        };
        let connection = match idle {
            Some(connection) => connection,
            None => open::open_reader(&self.target, self.committer.file())?,
        };
        let failed = |error: &rusqlite::Error| failure::error(&self.target, error, Duration::ZERO);
        // One snapshot for all that the operation reads.
        connection.execute_batch("BEGIN").map_err(|error| failed(&error))?;
        let answer = work(&Transaction::new(&connection, &self.target, self.clock.now()));
        connection.execute_batch("COMMIT").map_err(|error| failed(&error))?;
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if !readers.closed && readers.idle.len() < IDLE_READERS {
            readers.idle.push(connection);
        }
        answer
    }
}

impl Spawn for Shared {
    fn spawn(&self, work: Work) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = reading.get_or_insert_with(|| {
            let (sender, receiver) = channel::<Work>();
            let body = move || receiver.into_iter().for_each(|work| work());
            if let Err(error) = std::thread::Builder::new().name("bandog-read".into()).spawn(body) {
                log::error!("the thread for reading could not be started: {error}");
            }
            sender
        });
        // Where the thread could not be started, the work is dropped, and with it its reply: an error, not a hang.
        let _ = sender.send(work);
    }
}

impl Store for SqliteStore {
    fn ingest(&self, jobs: Vec<NewJob>) -> Completion<Vec<Ingested>> {
        self.write(move |transaction| ingest::ingest(transaction, jobs))
    }

    fn claim(&self, request: ClaimRequest) -> Completion<Claimed> {
        self.write(move |transaction| claim::claim(transaction, &request))
    }

    fn renew(&self, claims: Vec<ClaimName>, lease: Micros) -> Completion<Vec<Result<Renewal>>> {
        self.write(move |transaction| renew::renew(transaction, &claims, lease))
    }

    fn settle(&self, reports: Vec<(ClaimName, Report)>) -> Completion<Vec<Result<Settlement>>> {
        self.write(move |transaction| settle::settle(transaction, reports))
    }

    fn exchange(&self, reports: Vec<(ClaimName, Report)>, claim: Option<ClaimRequest>) -> Completion<Exchanged> {
        self.write(move |transaction| {
            let settlements = settle::settle(transaction, reports)?;
            let claimed = claim.map(|request| claim::claim(transaction, &request)).transpose()?.unwrap_or_default();
            Ok(Exchanged { settlements: Ok(settlements), claimed: Ok(claimed) })
        })
    }

    /// A file has one writer.
    fn claims_apart(&self) -> bool {
        false
    }

    fn recover(&self, limit: u32) -> Completion<Recovered> {
        self.write(move |transaction| recover::recover(transaction, limit))
    }

    fn cancel(&self, jobs: Vec<(String, String)>) -> Completion<Vec<Result<Cancellation>>> {
        self.write(move |transaction| cancel::cancel(transaction, &jobs))
    }

    fn fail_lane(&self, queue: String, lane: String, reason: String, limit: u32) -> Completion<FailedLane> {
        self.write(move |transaction| lane::fail_lane(transaction, &queue, &lane, &reason, limit))
    }

    fn set_lane_limit(&self, queue: String, lane: String, most: Option<u32>) -> Completion<()> {
        self.write(move |transaction| lane::set_lane_limit(transaction, &queue, &lane, most))
    }

    fn purge(&self, request: PurgeRequest) -> Completion<u32> {
        self.write(move |transaction| requeue::purge(transaction, &request))
    }

    fn requeue(&self, job_ids: Vec<String>, force: bool) -> Completion<Vec<Result<Requeue>>> {
        self.write(move |transaction| requeue::requeue(transaction, &job_ids, force))
    }

    fn dead_letters(&self, queue: Option<String>, after: Option<Cursor>, limit: u32) -> Completion<Page> {
        self.query(move |transaction| list::dead_letters(transaction, queue.as_deref(), after, limit))
    }

    fn jobs(&self, request: JobsRequest) -> Completion<Page> {
        self.query(move |transaction| list::jobs(transaction, &request))
    }

    fn stats(&self, bound: u32) -> Completion<Stats> {
        self.query(move |transaction| list::stats(transaction, bound))
    }

    fn probe(&self, after: Option<Cursor>) -> Completion<Option<Probed>> {
        self.query(move |transaction| list::probe(transaction, after))
    }

    fn recover_claim(&self, claim: ClaimKey, how: String) -> Completion<Recovered> {
        self.write(move |transaction| recover::recover_claim(transaction, &claim, &how))
    }

    fn adopt(&self, lease: Micros) -> Completion<()> {
        self.write(move |transaction| recover::adopt(transaction, lease))
    }

    fn read(&self, job_ids: Vec<String>) -> Completion<Vec<Option<JobRecord>>> {
        self.query(move |transaction| read::read(transaction, &job_ids))
    }

    fn has_pending_work(&self) -> Completion<bool> {
        self.query(read::has_pending_work)
    }

    fn next_due(&self, queues: Option<Vec<String>>) -> Completion<Option<Micros>> {
        self.query(move |transaction| read::next_due(transaction, queues.as_deref()))
    }

    fn next_wake(&self) -> Completion<Option<Micros>> {
        self.query(read::next_wake)
    }

    fn schema_identity(&self) -> Completion<Option<String>> {
        Completion::ready(self.opened_in.check().map(|()| None))
    }

    fn lock_runtime(&self, runtime: Runtime) -> Result<RuntimeLock> {
        self.opened_in.check()?;
        Ok(Box::new(runtime_lock::lock(&self.shared.target, runtime)?))
    }

    fn subscribe(&self, report: Subscriber) -> Subscription {
        self.watch();
        Box::new(self.shared.committer.changes().subscribe(report))
    }

    fn close(&self) {
        if !self.opened_in.is_current() {
            return; // the parent's handle: letting go of it here would let go of the parent's locks
        }
        let mut readers = self.shared.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.closed = true;
        let idle = std::mem::take(&mut readers.idle);
        drop(readers);
        drop(idle);
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.committer.close();
        self.shared.reading.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.commit_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.clock)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if self.opened_in.is_current() {
            self.close();
        } else {
            // Closing would run inside the child what belongs to the parent. The memory is left to the child's end.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}
