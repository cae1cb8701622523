//! The slots: where claimed jobs wait for an executor, and their reports for the next exchange with the store.
//!
//! The [`feeder`](super::feeder) puts claims in and takes reports out, a batch at a time; executors (threads, an event
//! loop, processes) take one job and finish it. Neither waits for the other's work: both hold the lock for a few hundred
//! nanoseconds, and nothing is called under it.
//!
//! One executor at a time is being woken. With short jobs the one that runs takes all that there are, and waking sixteen
//! others that find nothing would cost more than the jobs; with long ones each wakes the next as it starts.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::cancellation::{AbortReason, CancellationToken};
use super::events::{Counts, EventSink};
use super::feeder::Part;
use super::lease::LeaseKeeper;
use super::pool::{Assignment, Ending, PoolOptions};
use crate::job::{Claim, Report};
use crate::seldom::{Seldom, TROUBLE_PAUSE};
use crate::store::Store;

/// A claim that waits for an executor.
pub(super) type Waiting = (Arc<Claim>, CancellationToken);
/// A claim that waits for the store.
pub(super) type Ended = (Arc<Claim>, Ending);

/// How far a pool is from its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// It claims.
    #[default]
    Claiming,
    /// It lets running jobs finish.
    Draining,
    /// The store is closed: nothing that comes now can be recorded.
    Closed,
}

#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a name")]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) waiting: VecDeque<Waiting>,
    running: Vec<Option<Waiting>>,
    free_slots: Vec<usize>,
    pub(super) ended: Vec<Ended>,
    /// Since when the oldest of `ended` is there.
    pub(super) ended_since: Option<Instant>,
    /// Endings that are on their way to the store.
    pub(super) recording: usize,
    /// How many exchanges with the store are under way.
    pub(super) exchanging: usize,
    /// Which feeders sleep and may be notified, by part.
    pub(super) feeders_asleep: [bool; Part::COUNT],
    /// Whether there may be jobs that no claim has asked for yet.
    pub(super) may_have_work: bool,
    /// Whether somebody else has changed something: worth a look, which takes no lock.
    pub(super) may_look: bool,
    /// How many executors sleep.
    sleeping: usize,
    /// Whether one of them was woken and has not come for its job yet.
    waking: bool,
    pub(super) counts: Counts,
    /// Why the store does not take or give anything now.
    pub(super) problem: Option<String>,
}

impl State {
    pub(super) fn running(&self) -> usize {
        self.running.len() - self.free_slots.len()
    }

    /// Claims that nobody has started go back, uncharged.
    pub(super) fn release(&mut self, claims: impl IntoIterator<Item = Arc<Claim>>) {
        self.ended.extend(claims.into_iter().map(|claim| (claim, Ending::Reported(Report::Release))));
        if !self.ended.is_empty() {
            self.ended_since.get_or_insert_with(Instant::now);
        }
    }
}

type Notify = Box<dyn Fn() + Send + Sync>;

pub(super) struct Shared {
    pub(super) options: PoolOptions,
    pub(super) store: Arc<dyn Store>,
    pub(super) keeper: Arc<LeaseKeeper>,
    pub(super) events: Option<EventSink>,
    /// For the log.
    pub(super) trouble: Seldom,
    /// Told in place of sleeping executors: an event loop sleeps elsewhere.
    notify: Option<Notify>,
    state: Mutex<State>,
    /// There is something to take, or the pool ends.
    available: Condvar,
    /// There is something for a feeder to do.
    pub(super) wanted: Condvar,
    /// A job has ended, or was recorded.
    settled: Condvar,
}

impl Shared {
    pub(super) fn new(
        options: PoolOptions,
        store: Arc<dyn Store>,
        keeper: Arc<LeaseKeeper>,
        events: Option<EventSink>,
        notify: Option<Notify>,
    ) -> Self {
        let state = Mutex::new(State { may_have_work: true, ..State::default() });
        let (available, wanted, settled) = Default::default();
        let trouble = Seldom::new(TROUBLE_PAUSE);
        Self { options, store, keeper, events, trouble, notify, state, available, wanted, settled }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Below how many waiting jobs more are claimed, and what has ended is recorded.
    pub(super) fn low_water(&self) -> usize {
        self.options.prefetch as usize / 2
    }

    /// Wake the feeders that sleep; once, however many have reason to.
    pub(super) fn call_feeder(&self, state: &mut State) {
        if std::mem::take(&mut state.feeders_asleep).contains(&true) {
            self.wanted.notify_all();
        }
    }

    /// Jobs are waiting: see that somebody comes for them. `true` where the host is to be notified, under no lock.
    fn call_executor(&self, state: &mut State) -> bool {
        if state.waking || state.waiting.is_empty() {
            return false;
        }
        state.waking = self.notify.is_some() || state.sleeping > 0;
        if state.waking && self.notify.is_none() {
            self.available.notify_one();
        }
        state.waking && self.notify.is_some()
    }

    fn notify(&self) {
        if let Some(notify) = &self.notify {
            notify();
        }
    }

    /// Claims have come.
    pub(super) fn supply(&self, claims: impl Iterator<Item = Waiting>) {
        let mut state = self.lock();
        state.exchanging -= 1;
        state.waiting.extend(claims);
        self.settled.notify_all();
        if state.phase != Phase::Claiming {
            hand_back(&mut state);
            self.call_feeder(&mut state); // the one that records may have waited for the last claim
        }
        if self.call_executor(&mut state) {
            drop(state);
            self.notify();
        }
    }

    /// The next job; `None` where none waits, or all slots are taken. `woken`: by an executor that slept until now.
    pub(super) fn take(&self, woken: bool) -> Option<Assignment> {
        let mut state = self.lock();
        if woken {
            state.waking = false;
        }
        let (claim, token) = loop {
            if state.running() >= self.options.concurrency as usize {
                return None;
            }
            let (claim, token) = state.waiting.pop_front()?;
            match token.reason() {
                None => break (claim, token),
                // Nobody has started it.
                Some(AbortReason::CancelRequested(reason)) => {
                    self.end(&mut state, claim, Ending::Reported(Report::Cancelled { reason: Some(reason) }));
                }
                Some(_) => self.end(&mut state, claim, Ending::Reported(Report::Release)),
            }
        };
        let running = Some((Arc::clone(&claim), token.clone()));
        let slot = state.free_slots.pop().unwrap_or_else(|| {
            state.running.push(None);
            state.running.len() - 1
        });
        state.running[slot] = running;
        state.counts.started += 1;
        if state.waiting.len() <= self.low_water() && (state.may_have_work || !state.ended.is_empty()) {
            self.call_feeder(&mut state);
        }
        if self.notify.is_none() {
            // A host that is notified takes what there is; a thread takes one.
            self.call_executor(&mut state);
        }
        drop(state);
        if let Some(timeout) = claim.timeout.or(self.options.timeout) {
            self.keeper.set_timeout(&claim.key, timeout);
        }
        Some(Assignment { slot, claim, token })
    }

    /// Executors are done with jobs.
    pub(super) fn finish(&self, endings: impl IntoIterator<Item = (usize, Ending)>) {
        let mut state = self.lock();
        for (slot, ending) in endings {
            // One that was finished before is left alone.
            if let Some((claim, _)) = state.running.get_mut(slot).and_then(Option::take) {
                state.free_slots.push(slot);
                if state.phase != Phase::Closed {
                    self.end(&mut state, claim, ending);
                }
            }
        }
        if state.phase != Phase::Claiming {
            self.settled.notify_all();
        }
    }

    fn end(&self, state: &mut State, claim: Arc<Claim>, ending: Ending) {
        state.ended.push((claim, ending));
        let first = state.ended.len() == 1;
        if first {
            state.ended_since = Some(Instant::now());
        }
        if first || state.waiting.len() <= self.low_water() || state.ended.len() == super::feeder::LARGEST_EXCHANGE {
            self.call_feeder(state);
        }
    }

    /// The store has answered.
    pub(super) fn recorded(&self, update: impl FnOnce(&mut State)) {
        update(&mut self.lock());
        self.settled.notify_all();
    }

    /// Sleep until there may be a job to take. False once there will be none any more.
    pub(super) fn wait_for_job(&self) -> bool {
        let mut state = self.lock();
        if state.waiting.is_empty() && state.phase == Phase::Claiming {
            state.sleeping += 1;
            state = self.available.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
        // `waking` stays until the job is taken: this thread may yet have to wait for the interpreter.
        !(state.waiting.is_empty() && state.phase != Phase::Claiming)
    }

    /// Claim nothing more; claims that nobody has started are handed back.
    pub(super) fn drain(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Claiming {
            state.phase = Phase::Draining;
        }
        hand_back(&mut state);
        self.call_feeder(&mut state);
        self.available.notify_all();
        self.settled.notify_all();
        drop(state);
        self.notify();
    }

    /// The store is closed.
    pub(super) fn closed(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        state.waiting.clear();
        state.ended.clear();
        state.recording = 0;
        self.available.notify_all();
        self.settled.notify_all();
        drop(state);
        self.notify();
    }

    /// Sleep until `done` or `until` has come; whether it is done.
    pub(super) fn wait_until(&self, until: Instant, done: impl Fn(&State) -> bool) -> bool {
        let mut state = self.lock();
        loop {
            if done(&state) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.settled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What runs now.
    pub(super) fn running(&self) -> Vec<Waiting> {
        self.lock().running.iter().flatten().cloned().collect()
    }
}

fn hand_back(state: &mut State) {
    let waiting = std::mem::take(&mut state.waiting);
    state.release(waiting.into_iter().map(|(claim, _)| claim));
}
