//! The store on a PostgreSQL server, for any number of hosts.
//!
//! - `address`, `place`, `password`, `options`, `schema`, `access`: where the server is, what is asked of it, which tables are
//!   there, and what may be done with them
//! - `connect`, `socket`, `descriptors`, `tls`, `certificate`, `trouble`: a connection, encrypted as `sslmode` says, and why there is none
//! - `link`, `backend`, `plans`, `transaction`, `fault`: a connection per duty, whether its session is its own, what it keeps and has
//!   prepared, a transaction on it, and what may be done when it fails
//! - `inbox`: requests of one kind that wait together are carried out together
//! - `claim` (with `levels`), `renew`, `settle`, `ingest`: the hot operations, each on a link of its own
//! - `recover`, `cancel`, `lane`, `requeue` (and purge), `read`, `list`: the others
//! - `notify`: telling other hosts of queued jobs, and hearing of theirs
//! - `names`, `changes`, `values`, `shared`: what they have in common
//!
//! One thread, `bandog-postgres`, does all of it on a runtime of its own; callers hand requests over and wait for their
//! completion. The server's clock rules every time that is stored.

mod access;
mod address;
mod backend;
mod cancel;
mod certificate;
mod changes;
mod claim;
mod connect;
mod descriptors;
mod fault;
mod inbox;
mod ingest;
mod lane;
mod levels;
mod link;
mod list;
mod names;
mod notify;
pub mod options;
mod password;
mod place;
mod plans;
mod read;
mod recover;
mod renew;
mod requeue;
mod schema;
mod settle;
mod shared;
mod socket;
mod thread;
mod tls;
mod transaction;
mod trouble;
mod values;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use self::address::Address;
use self::fault::Fault;
use self::link::Link;
use self::notify::Listening;
use self::options::PostgresOptions;
use self::shared::Shared;
use self::thread::{Senders, Thread, Work};
use self::transaction::{Terms, Transaction};
use super::{Exchanged, Ingested, Runtime, RuntimeLock, Store, Subscriber, Subscription};
use crate::clock::Clock;
use crate::completion::Completion;
use crate::error::{Error, Result};
use crate::fork::Generation;
use crate::job::{
    ClaimKey, ClaimName, ClaimRequest, Claimed, JobRecord, Micros, NewJob, Recovered, Renewal, Report, Settlement,
};
use crate::management::{Cancellation, Cursor, FailedLane, JobsRequest, Page, Probed, PurgeRequest, Requeue, Stats};

/// Jobs in a schema of a PostgreSQL database.
pub struct PostgresStore {
    inner: Arc<Inner>,
    opened_in: Generation,
}

struct Inner {
    shared: Arc<Shared>,
    /// Gone once it is closed.
    senders: Mutex<Option<Senders>>,
    thread: Mutex<Option<Thread>>,
}

impl PostgresStore {
    /// Open a schema that has the tables of this version.
    ///
    /// # Errors
    /// `Invalid` for a URL that cannot be read, `CannotOpen` where the server says no, `SchemaMismatch` for tables of
    /// another version, or none.
    pub fn open(url: &str, options: PostgresOptions) -> Result<Self> {
        let opened_in = Generation::current();
        let shared = Arc::new(Shared::new(Address::parse(url)?, options));
        let (thread, senders) = Thread::start(&shared)?;
        let inner = Inner { shared, senders: Mutex::new(Some(senders)), thread: Mutex::new(Some(thread)) };
        let store = Self { inner: Arc::new(inner), opened_in };
        let (reply, checked) = Completion::pair();
        let check: Work = Box::new(move |shared, link| {
            Box::pin(async move {
                link.fail_fast = true;
                let answer = schema::check(shared, link).await;
                link.fail_fast = false;
                reply.send(answer);
            })
        });
        store.hand_over(|senders| &senders.look, || check)?;
        checked.wait()?;
        Ok(store)
    }

    /// Bring a schema to the version of this bandog. Returns the versions before and after.
    ///
    /// # Errors
    /// As [`PostgresStore::open`], and what the server refuses.
    pub fn migrate(url: &str, options: PostgresOptions) -> Result<(u32, u32)> {
        thread::alone(url, options, async |shared: &Shared, link: &mut Link| schema::migrate(shared, link).await)
    }

    /// The version of a schema, 0 where there are no tables, and that of this bandog.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub fn migration_status(url: &str, options: PostgresOptions) -> Result<(u32, u32)> {
        thread::alone(url, options, async |shared: &Shared, link: &mut Link| schema::status(shared, link).await)
    }

    /// Remove everything that the migrations made, jobs included, and the schema where nothing else is in it. Returns the
    /// version that was there, 0 for none, and whether the schema is gone.
    ///
    /// # Errors
    /// As [`PostgresStore::open`], and what the server refuses.
    pub fn uninstall(url: &str, options: PostgresOptions) -> Result<(u32, bool)> {
        thread::alone(url, options, async |shared: &Shared, link: &mut Link| schema::uninstall(shared, link).await)
    }

    /// The server, as messages name it.
    #[must_use]
    pub fn target(&self) -> &str {
        self.inner.shared.target()
    }

    fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    /// Send a request to the thread, unless the store is closed or this is a forked child.
    fn hand_over<R>(
        &self,
        duty: impl FnOnce(&Senders) -> &UnboundedSender<R>,
        request: impl FnOnce() -> R,
    ) -> Result<()> {
        self.opened_in.check()?;
        let senders = self.inner.senders.lock().unwrap_or_else(PoisonError::into_inner);
        let senders = senders.as_ref().ok_or(Error::Closed)?;
        duty(senders).send(request()).map_err(|_| Error::Closed)
    }

    fn ask<R, T: Send + 'static>(
        &self,
        duty: impl FnOnce(&Senders) -> &UnboundedSender<R>,
        request: impl FnOnce(crate::completion::Reply<T>) -> R,
    ) -> Completion<T> {
        let (reply, completion) = Completion::pair();
        match self.hand_over(duty, || request(reply)) {
            Ok(()) => completion,
            Err(error) => Completion::ready(Err(error)),
        }
    }

    /// Read. Whatever breaks, it may be done again.
    fn look<T: Send + 'static>(
        &self,
        terms: fn(&Shared, Instant) -> Terms,
        body: impl AsyncFn(&Transaction<'_>, &Shared) -> Result<T, Fault> + Send + 'static,
    ) -> Completion<T> {
        self.look_until(self.shared().deadline(), terms, body)
    }

    fn look_until<T: Send + 'static>(
        &self,
        deadline: Instant,
        terms: fn(&Shared, Instant) -> Terms,
        body: impl AsyncFn(&Transaction<'_>, &Shared) -> Result<T, Fault> + Send + 'static,
    ) -> Completion<T> {
        let asked_at = Instant::now();
        self.ask(
            |senders| &senders.look,
            |reply| -> Work {
                Box::new(move |shared, link| {
                    Box::pin(async move {
                        let answer = loop {
                            let terms = terms(shared, deadline);
                            match link.transact(terms, async |transaction| body(transaction, shared).await).await {
                                Err(Fault::Lost(_)) if Instant::now() < deadline && !shared.gives_up() => {}
                                Err(Fault::Busy)
                                    if Instant::now() < (asked_at + shared.options.busy_timeout).min(deadline)
                                        && !shared.gives_up() => {}
                                answer => break answer,
                            }
                        };
                        reply.send(answer.map_err(|fault| shared.error(fault, asked_at)));
                    })
                })
            },
        )
    }

    /// Write, once. Where the link breaks, the caller is told that the end is not known. `queued`: whether a job may be
    /// waiting after it that was not.
    fn manage<T: Send + 'static>(
        &self,
        queued: fn(&T) -> bool,
        body: impl AsyncFnOnce(&Transaction<'_>, &Shared) -> Result<T, Fault> + Send + 'static,
    ) -> Completion<T> {
        let (asked_at, deadline) = (Instant::now(), self.shared().deadline());
        self.ask(
            |senders| &senders.manage,
            |reply| -> Work {
                Box::new(move |shared, link| {
                    Box::pin(async move {
                        let terms = shared.patient(deadline);
                        let answer = link.transact(terms, async |transaction| body(transaction, shared).await).await;
                        if let Ok(answer) = &answer {
                            shared.changed(queued(answer));
                        }
                        reply.send(answer.map_err(|fault| shared.error(fault, asked_at)));
                    })
                })
            },
        )
    }
}

impl Store for PostgresStore {
    fn ingest(&self, jobs: Vec<NewJob>) -> Completion<Vec<Ingested>> {
        if jobs.is_empty() {
            return Completion::ready(self.opened_in.check().map(|()| Vec::new()));
        }
        self.ask(|senders| &senders.ingest, |reply| ingest::Request::new(self.shared(), jobs, reply))
    }

    fn claim(&self, request: ClaimRequest) -> Completion<Claimed> {
        let Some(lease) = request.lease else { return Completion::ready(Err(no_probe())) };
        self.shared().claims_for(lease);
        let (asked_at, deadline) = (Instant::now(), self.shared().lease_deadline(lease));
        self.ask(|senders| &senders.claim, |reply| claim::Request { asked: request, lease, asked_at, deadline, reply })
    }

    fn renew(&self, claims: Vec<ClaimName>, lease: Micros) -> Completion<Vec<Result<Renewal>>> {
        let (asked_at, deadline) = (Instant::now(), self.shared().lease_deadline(lease));
        self.ask(|senders| &senders.renew, |reply| renew::Request { claims, lease, asked_at, deadline, reply })
    }

    fn settle(&self, reports: Vec<(ClaimName, Report)>) -> Completion<Vec<Result<Settlement>>> {
        self.ask(|senders| &senders.settle, |reply| settle::Request::new(self.shared(), reports, reply))
    }

    /// Each on its own link, at the same time: a claim never waits for a row that a settlement waits for.
    fn exchange(&self, reports: Vec<(ClaimName, Report)>, claim: Option<ClaimRequest>) -> Completion<Exchanged> {
        let claimed = claim.map_or_else(|| Completion::ready(Ok(Claimed::default())), |claim| self.claim(claim));
        let settled = match reports.is_empty() {
            true => Completion::ready(Ok(Vec::new())),
            false => self.settle(reports),
        };
        settled.both(claimed).map(|(settlements, claimed)| Exchanged { settlements, claimed })
    }

    fn claims_apart(&self) -> bool {
        true
    }

    fn recover(&self, limit: u32) -> Completion<Recovered> {
        self.manage(has_recovered, async move |transaction, shared| recover::recover(transaction, shared, limit).await)
    }

    fn cancel(&self, jobs: Vec<(String, String)>) -> Completion<Vec<Result<Cancellation>>> {
        self.manage(|_| false, async move |transaction, shared| cancel::cancel(transaction, shared, &jobs).await)
    }

    fn fail_lane(&self, queue: String, lane: String, reason: String, limit: u32) -> Completion<FailedLane> {
        self.manage(
            |_| false,
            async move |transaction, shared| lane::fail_lane(transaction, shared, &queue, &lane, &reason, limit).await,
        )
    }

    fn set_lane_limit(&self, queue: String, lane: String, most: Option<u32>) -> Completion<()> {
        self.manage(
            |()| false,
            async move |transaction, shared| lane::set_lane_limit(transaction, shared, &queue, &lane, most).await,
        )
    }

    fn purge(&self, request: PurgeRequest) -> Completion<u32> {
        self.manage(|_| false, async move |transaction, shared| requeue::purge(transaction, shared, &request).await)
    }

    fn requeue(&self, job_ids: Vec<String>, force: bool) -> Completion<Vec<Result<Requeue>>> {
        self.manage(has_requeued, async move |transaction, shared| {
            requeue::requeue(transaction, shared, &job_ids, force).await
        })
    }

    fn dead_letters(&self, queue: Option<String>, after: Option<Cursor>, limit: u32) -> Completion<Page> {
        self.look(Shared::snapshot, async move |transaction, shared| {
            list::dead_letters(transaction, shared, queue.as_deref(), after, limit).await
        })
    }

    fn jobs(&self, request: JobsRequest) -> Completion<Page> {
        self.look(Shared::snapshot, async move |transaction, shared| list::jobs(transaction, shared, &request).await)
    }

    fn stats(&self, bound: u32) -> Completion<Stats> {
        self.look(Shared::snapshot, async move |transaction, shared| list::stats(transaction, shared, bound).await)
    }

    /// There are none: a claim without a lease cannot be made here.
    fn probe(&self, _after: Option<Cursor>) -> Completion<Option<Probed>> {
        Completion::ready(self.opened_in.check().map(|()| None))
    }

    fn recover_claim(&self, claim: ClaimKey, how: String) -> Completion<Recovered> {
        self.manage(has_recovered, async move |transaction, shared| {
            recover::recover_claim(transaction, shared, &claim, &how).await
        })
    }

    fn adopt(&self, _lease: Micros) -> Completion<()> {
        Completion::ready(self.opened_in.check())
    }

    fn read(&self, job_ids: Vec<String>) -> Completion<Vec<Option<JobRecord>>> {
        self.look(Shared::patient, async move |transaction, shared| read::read(transaction, shared, &job_ids).await)
    }

    fn has_pending_work(&self) -> Completion<bool> {
        self.look(Shared::patient, async |transaction, shared| read::has_pending_work(transaction, shared).await)
    }

    /// Whoever asks has claims to look after, as a rule: it gives up as soon as a settlement would.
    fn next_due(&self, queues: Option<Vec<String>>) -> Completion<Option<Micros>> {
        self.look_until(self.shared().settle_deadline(), Shared::patient, async move |transaction, shared| {
            let (now, next) = read::next_due(transaction, shared, queues.as_deref(), false).await?;
            Ok(next.map(|next| (next - now).max(0)))
        })
    }

    fn next_wake(&self) -> Completion<Option<Micros>> {
        self.look(Shared::patient, async |transaction, shared| read::next_wake(transaction, shared).await)
    }

    fn schema_identity(&self) -> Completion<Option<String>> {
        self.look(Shared::patient, async |transaction, shared| schema::identity(transaction, shared).await)
    }

    fn lock_runtime(&self, runtime: Runtime) -> Result<RuntimeLock> {
        self.opened_in.check()?;
        match runtime {
            Runtime::Lease => {
                // A worker that may not claim would be told so by each claim, for ever.
                let shared = self.shared();
                shared.access.get().map_or(Ok(()), |access| access.may_run(shared))?;
                Ok(Box::new(()))
            }
            Runtime::Probe => Err(no_probe()),
        }
    }

    fn subscribe(&self, report: Subscriber) -> Subscription {
        Box::new((self.shared().changes.subscribe(report), Listening::new(&self.inner.shared)))
    }

    fn close(&self) {
        if !self.opened_in.is_current() {
            return; // the parent's handle: its sockets are not this process's to close
        }
        self.shared().close();
        drop(self.inner.senders.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.inner.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A callback that closes the store runs on the thread itself, which cannot wait for its own end.
        if let Some(thread) = thread
            && thread.id() != std::thread::current().id()
        {
            thread.join();
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared().options.clock)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        if self.opened_in.is_current() {
            self.close();
        } else {
            // In a forked child: the thread is not here, and its sockets are the parent's. The memory is left to the child's
            // end.
            std::mem::forget(Arc::clone(&self.inner));
        }
    }
}

/// Many hosts may run the jobs of a server, and none of them can see whether another one's executor lives.
fn no_probe() -> Error {
    Error::Invalid {
        field: "is_alive",
        problem: "a liveness probe needs an SQLite file whose jobs one host runs; on PostgreSQL claims have leases"
            .into(),
    }
}

fn has_recovered(recovery: &Recovered) -> bool {
    !recovery.recovered.is_empty()
}

#[allow(clippy::ptr_arg, reason = "a call's answer as it is")]
fn has_requeued(answers: &Vec<Result<Requeue>>) -> bool {
    answers.iter().any(|answer| matches!(answer, Ok(Requeue::Requeued)))
}
