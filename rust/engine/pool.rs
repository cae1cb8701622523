//! The pool of a worker: claimed jobs for its executors, and their reports back.
//!
//! - [`slots`](super::slots): where both wait
//! - [`feeder`](super::feeder): the thread that claims, and records what has ended

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cancellation::CancellationToken;
use super::events::{Counts, EventSink};
use super::feeder::{Feeder, Part};
use super::lease::LeaseKeeper;
use super::slots::{Phase, Shared};
use crate::error::{Error, Result};
use crate::fork::Generation;
use crate::job::{Claim, Micros, Report};
use crate::store::{Store, Subscription};

/// How a pool is to work.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// A name for the record.
    pub worker: String,
    /// The queues to claim from; `None` for all.
    pub queues: Option<Vec<String>>,
    /// How long a claim holds without renewal.
    pub lease: Micros,
    /// How many jobs run at once.
    pub concurrency: u32,
    /// How many more are claimed ahead of need.
    pub prefetch: u32,
    /// How long an executor may take, for jobs that do not say.
    pub timeout: Option<Micros>,
    /// The longest pause between two looks at an idle store.
    pub poll: Duration,
}

/// One job for an executor.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// What to finish it by.
    pub slot: usize,
    /// The claim.
    pub claim: Arc<Claim>,
    /// Aborted when the executor should stop.
    pub token: CancellationToken,
}

/// How an assignment ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// The executor reported.
    Reported(Report),
    /// The executor is known to be dead; how it is known.
    Lost(String),
}

/// A pool, and the threads that feed it.
pub struct Pool {
    shared: Arc<Shared>,
    feeders: Vec<JoinHandle<()>>,
    _subscription: Subscription,
    opened_in: Generation,
}

/// What runs and what waits at one moment.
#[derive(Clone, Debug, Default)]
pub struct PoolStats {
    /// Executors at work.
    pub running: usize,
    /// Claimed jobs that wait for one.
    pub waiting: usize,
    /// Reports that are not recorded yet.
    pub unrecorded: usize,
    /// What was done so far.
    pub counts: Counts,
    /// Why the store takes nothing at present.
    pub problem: Option<String>,
}

impl Pool {
    /// Start to claim. `notify` is told when jobs wait, in place of threads in [`Pool::wait_for_job`].
    ///
    /// # Errors
    /// `StoreFailed` where the thread could not be started.
    pub fn start(
        store: Arc<dyn Store>,
        keeper: Arc<LeaseKeeper>,
        options: PoolOptions,
        events: Option<EventSink>,
        notify: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::new(options, Arc::clone(&store), keeper, events, notify));
        let hears = Arc::downgrade(&shared);
        let subscription = store.subscribe(Box::new(move |change| {
            if change.queued
                && let Some(shared) = hears.upgrade()
            {
                let mut state = shared.lock();
                let reason = if change.unknown { &mut state.may_look } else { &mut state.may_have_work };
                // Where it was true before, the feeder claims or looks as soon as it can.
                if !std::mem::replace(reason, true) {
                    shared.call_feeder(&mut state);
                }
            }
        }));
        let pool = Self { shared, feeders: Vec::new(), _subscription: subscription, opened_in: Generation::current() };
        let parts = Part::of(store.as_ref());
        parts.iter().try_fold(pool, |mut pool, part| {
            let feeder = Feeder::new(Arc::clone(&pool.shared), *part);
            let started = std::thread::Builder::new().name(part.name().into()).spawn(move || feeder.run());
            pool.feeders.push(started.map_err(|error| Error::StoreFailed {
                target: "the worker".into(),
                problem: format!("its thread could not be started: {error}"),
            })?);
            Ok(pool)
        })
    }

    /// Whether this is the process that started it.
    ///
    /// # Errors
    /// `Forked` in a child: no other method may be called there.
    pub fn check_process(&self) -> Result<()> {
        self.opened_in.check()
    }

    /// The next job; `None` where none waits, or all slots are taken. Never blocks. `woken`: by an executor that slept, or
    /// was notified, since it last took one.
    #[must_use]
    pub fn take(&self, woken: bool) -> Option<Assignment> {
        self.shared.take(woken)
    }

    /// Sleep until there may be a job to take. False once there will be none any more.
    #[must_use]
    pub fn wait_for_job(&self) -> bool {
        self.shared.wait_for_job()
    }

    /// Executors are done with jobs: they are recorded soon, and their slots are free. Never blocks.
    pub fn finish(&self, endings: impl IntoIterator<Item = (usize, Ending)>) {
        self.shared.finish(endings);
    }

    /// Claim nothing more, and hand back what nobody has started. Running jobs go on.
    pub fn drain(&self) {
        self.shared.drain();
    }

    /// Sleep until no job runs, or `until` has come; whether none does.
    #[must_use]
    pub fn wait_idle(&self, until: Instant) -> bool {
        self.shared.wait_until(until, |state| state.running() == 0)
    }

    /// Sleep until what has ended is recorded, or `until` has come; whether it is.
    #[must_use]
    pub fn wait_recorded(&self, until: Instant) -> bool {
        self.shared.wait_until(until, |state| state.ended.is_empty() && state.recording == 0)
    }

    /// Sleep until there is nothing more to do now: no job is due in these queues, none runs, and all is recorded. Or until
    /// `until` has come; whether it is so.
    #[must_use]
    pub fn wait_drained(&self, until: Instant) -> bool {
        self.shared.wait_until(until, |state| {
            let busy =
                state.exchanging > 0 || state.running() > 0 || !state.ended.is_empty() || !state.waiting.is_empty();
            !busy && (!(state.may_have_work || state.may_look) || state.phase != Phase::Claiming)
        })
    }

    /// Whether its store was closed under it, so that nothing can be claimed or recorded any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().phase == Phase::Closed
    }

    /// What runs: the claims and their tokens.
    #[must_use]
    pub fn running(&self) -> Vec<(Arc<Claim>, CancellationToken)> {
        self.shared.running()
    }

    /// What it does, and has done.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let state = self.shared.lock();
        PoolStats {
            running: state.running(),
            waiting: state.waiting.len(),
            unrecorded: state.ended.len() + state.recording,
            counts: state.counts,
            problem: state.problem.clone(),
        }
    }
}

impl Drop for Pool {
    /// The threads end once what still runs has ended and is recorded, or the store is closed.
    fn drop(&mut self) {
        if self.opened_in.is_current() {
            self.shared.drain();
        } else {
            std::mem::forget(Arc::clone(&self.shared));
        }
        self.feeders.clear();
    }
}
