//! The feeder: one thread that keeps a pool supplied, and records what has ended.
//!
//! One exchange with the store does both: it settles what has ended and claims for the slots that this has freed, in one
//! transaction where the store can. While an exchange is under way the next one gathers, so that a busy pool commits
//! batches and an idle one adds no delay. Where the store does both at once, there are two such threads: one claims, the
//! other records, and neither waits for the other (a worker on PostgreSQL waited a fifth of its time). A job whose outcome was not recorded when the process dies is a lost claim, like
//! one that was still running.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::events::Event;
use super::lease::Keep;
use super::pool::Ending;
use super::slots::{Ended, Phase, Shared, State, Waiting};
use crate::error::{Error, Result};
use crate::job::{Claim, ClaimName, ClaimRequest, Claimed, Micros, Report, Settlement};
use crate::store::{Exchanged, Store};

/// How many endings are enough for an exchange, whatever else is to come.
pub(super) const LARGEST_EXCHANGE: usize = 1_000;
/// How long an ending waits for company at most, while jobs wait whose endings will come soon.
const PATIENCE: Duration = Duration::from_millis(2);
/// The first pause after a failure of the store.
const FIRST_RETREAT: Duration = Duration::from_millis(50);
/// The longest pause after failures.
const LONGEST_RETREAT: Duration = Duration::from_secs(5);
/// The longest pause while the disk is full: somebody has to make room.
const LONGEST_RETREAT_FULL: Duration = Duration::from_secs(30);

/// What a feeder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// It claims.
    Claims,
    /// It records.
    Records,
}

impl Part {
    /// How many there are.
    pub(super) const COUNT: usize = 3;

    /// How the work on a store is divided.
    pub(super) fn of(store: &dyn Store) -> &'static [Self] {
        if store.claims_apart() { &[Self::Claims, Self::Records] } else { &[Self::Whole] }
    }

    /// Of its thread.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Whole | Self::Claims => "bandog-feeder",
            Self::Records => "bandog-recorder",
        }
    }
}

/// The thread's own state.
pub(super) struct Feeder {
    shared: Arc<Shared>,
    part: Part,
    /// When to look even though nothing is known to have changed.
    look_at: Instant,
    /// Until when the store is left alone after a failure.
    retry_at: Option<Instant>,
    retreat: Duration,
}

/// What is done next.
enum Step {
    /// Record what has ended, and claim up to `limit` jobs.
    Exchange { ended: Vec<Ended>, limit: u32 },
    /// See whether a claim is worth its lock: a file has one, and idle workers that took it after every change by others kept
    /// the busy ones from renewing their leases.
    Look,
}

impl Feeder {
    pub(super) fn new(shared: Arc<Shared>, part: Part) -> Self {
        Self { shared, part, look_at: Instant::now(), retry_at: None, retreat: FIRST_RETREAT }
    }

    pub(super) fn run(mut self) {
        while let Some(step) = self.next_step() {
            let done = match step {
                Step::Exchange { ended, limit } => self.exchange(ended, limit),
                Step::Look => self.look(),
            };
            if let Err(Error::Closed | Error::Forked { .. }) = done {
                self.shared.closed();
                return;
            }
        }
    }

    /// Sleep until there is something to do. `None` once there never will be.
    fn next_step(&mut self) -> Option<Step> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        loop {
            let over = match self.part {
                Part::Claims => true,
                // A claim that is under way will be handed back.
                Part::Whole | Part::Records => state.running() == 0 && state.ended.is_empty() && state.exchanging == 0,
            };
            if state.phase == Phase::Closed || (state.phase != Phase::Claiming && over) {
                return None;
            }
            let now = Instant::now();
            let step = self.decide(&mut state, now);
            let until = match step {
                Ok(step) => return Some(step),
                Err(until) => until,
            };
            state.feeders_asleep[self.part as usize] = true;
            let left = until.saturating_duration_since(now);
            state = shared.wanted.wait_timeout(state, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
            state.feeders_asleep[self.part as usize] = false;
        }
    }

    /// What to do now; or until when there is nothing to do.
    fn decide(&self, state: &mut State, now: Instant) -> std::result::Result<Step, Instant> {
        if let Some(retry_at) = self.retry_at
            && now < retry_at
        {
            return Err(retry_at);
        }
        let options = &self.shared.options;
        let capacity = options.concurrency as usize + options.prefetch as usize;
        let claiming = state.phase == Phase::Claiming;
        let (claims, records) = (self.part != Part::Records, self.part != Part::Claims);
        let low = state.waiting.len() <= self.shared.low_water();
        let overdue_at = state.ended_since.filter(|_| records).map(|since| since + PATIENCE);
        let record = records
            && !state.ended.is_empty()
            && (low || !claiming || state.ended.len() >= LARGEST_EXCHANGE || overdue_at.is_some_and(|at| now >= at));
        let free = match claiming && claims {
            true => capacity.saturating_sub(state.running() + state.waiting.len()),
            false => 0,
        };
        let look = state.may_look || now >= self.look_at;
        // The last one to end may have brought more work that no change has told of yet: "drained" rests on a claim after it.
        let last = record && state.running() == 0 && state.waiting.is_empty();
        if last && claiming && !claims {
            state.may_have_work = true;
            self.shared.call_feeder(state);
        }
        let limit = if state.may_have_work || last || (record && look) { free } else { 0 };
        if record || (low && limit > 0) {
            let mut ended = Vec::new();
            if records {
                ended = std::mem::take(&mut state.ended);
                (state.recording, state.ended_since) = (ended.len(), None);
            }
            state.exchanging += 1;
            if limit > 0 {
                (state.may_have_work, state.may_look) = (false, false); // unless this claim, or a change from here on, says otherwise
            }
            return Ok(Step::Exchange { ended, limit: u32::try_from(limit).unwrap_or(u32::MAX) });
        }
        if low && free > 0 && look {
            state.may_look = false;
            state.exchanging += 1;
            return Ok(Step::Look);
        }
        // With nothing to record, no slot free or enough waiting, whoever changes that calls.
        let next_look = if claims && self.look_at > now { self.look_at } else { now + options.poll };
        Err(overdue_at.unwrap_or(next_look))
    }

    /// Is anything due? Takes no lock.
    fn look(&mut self) -> Result<()> {
        let answer = self.shared.store.next_due(self.shared.options.queues.clone()).wait();
        let next_in = answer.as_ref().ok().copied().flatten();
        self.look_again(next_in);
        self.shared.lock().may_have_work |= next_in == Some(0);
        self.shared.supply(std::iter::empty());
        answer.map_or_else(|error| self.trouble(error), |_| Ok(()))
    }

    fn exchange(&mut self, ended: Vec<Ended>, limit: u32) -> Result<()> {
        let options = &self.shared.options;
        let clock = self.shared.store.clock();
        let request = (limit > 0).then(|| ClaimRequest {
            lease_token: uuid::Uuid::new_v4().simple().to_string().into(),
            worker: options.worker.clone(),
            queues: options.queues.clone(),
            limit,
            lease: Some(options.lease),
            look_ahead: true,
        });
        let asked_at = clock.now().uptime;
        let reports = ended.iter().filter_map(|(claim, ending)| match ending {
            Ending::Reported(report) => Some((ClaimName::Number(claim.key.clone()), report.clone())),
            Ending::Lost(_) => None,
        });
        let answer = self.shared.store.exchange(reports.collect(), request).wait();
        let Exchanged { settlements, claimed } =
            answer.unwrap_or_else(|error| Exchanged { settlements: Err(error.clone()), claimed: Err(error) });
        let trouble = settlements.as_ref().err().or(claimed.as_ref().err()).cloned();
        let mut events = Vec::new();
        match settlements {
            _ if self.part == Part::Claims => {}
            Ok(settlements) => self.recorded(ended, settlements, &mut events),
            Err(_) => self.put_back(ended),
        }
        let kept = if let Ok(claimed) = claimed {
            self.claimed(claimed, limit, asked_at, &mut events)
        } else {
            self.shared.lock().may_have_work |= limit > 0;
            Vec::new()
        };
        // Before anybody can see that the work is done.
        if let Some(sink) = &self.shared.events
            && !events.is_empty()
        {
            sink(events);
        }
        self.shared.supply(kept.into_iter());
        if let Some(error) = trouble {
            return self.trouble(error);
        }
        if self.retry_at.take().is_some() {
            self.retreat = FIRST_RETREAT;
            self.shared.trouble.forget();
            self.shared.lock().problem = None;
        }
        Ok(())
    }

    /// What has ended is in the store, or was lost before.
    fn recorded(&self, ended: Vec<Ended>, settlements: Vec<Result<Settlement>>, events: &mut Vec<Event>) {
        let ended = self.recover_lost(ended, events);
        self.shared.keeper.let_go_all(ended.iter().map(|(claim, _)| &claim.key));
        if self.shared.events.is_some() {
            events.extend(ended.iter().zip(&settlements).map(|((claim, ending), answer)| event(claim, ending, answer)));
        }
        self.shared.recorded(|state| {
            state.recording = 0;
            for answer in &settlements {
                state.counts.settlement(answer.as_ref().unwrap_or(&Settlement::Stale));
            }
        });
    }

    /// Nothing was recorded, as far as is known: it is reported again.
    fn put_back(&self, ended: Vec<Ended>) {
        self.shared.recorded(|state| {
            state.recording = 0;
            if !ended.is_empty() {
                state.ended_since = Some(Instant::now());
                state.ended.splice(0..0, ended);
            }
        });
    }

    /// What was claimed, kept and ready to be started.
    fn claimed(&mut self, claimed: Claimed, limit: u32, asked_at: Micros, events: &mut Vec<Event>) -> Vec<Waiting> {
        let Claimed { claims, recovery, next_in } = claimed;
        if limit > 0 {
            self.look_again(next_in);
        }
        let claims: Vec<_> = claims.into_iter().map(Arc::new).collect();
        if self.shared.events.is_some() {
            events.extend(claims.iter().map(|claim| Event::of("claimed", claim)));
            events.extend(recovery.recovered.iter().map(|id| Event::of_job("recovered", id.clone())));
            events.extend(recovery.interrupted.iter().map(|id| Event::of_job("interrupted", id.clone())));
        }
        let mut state = self.shared.lock();
        state.may_have_work |= limit > 0 && claims.len() == limit as usize;
        state.counts.claimed += claims.len() as u64;
        state.counts.recovered += recovery.recovered.len() as u64;
        state.counts.interrupted += recovery.interrupted.len() as u64;
        drop(state);
        self.keep(claims, asked_at)
    }

    /// Put claims back whose executors are dead, without waiting for their leases. What is left was reported.
    fn recover_lost(&self, ended: Vec<Ended>, events: &mut Vec<Event>) -> Vec<Ended> {
        let (lost, reported): (Vec<_>, Vec<_>) =
            ended.into_iter().partition(|(_, ending)| matches!(ending, Ending::Lost(_)));
        for (claim, ending) in lost {
            let Ending::Lost(how) = ending else { continue };
            self.shared.keeper.let_go(&claim.key);
            match self.shared.store.recover_claim(claim.key.clone(), how).wait() {
                Ok(recovery) => {
                    let kind = match (recovery.recovered.is_empty(), recovery.interrupted.is_empty()) {
                        (false, _) => "recovered",
                        (true, false) => "interrupted",
                        (true, true) => Settlement::Stale.as_str(), // it had been recovered, or settled, before
                    };
                    let mut state = self.shared.lock();
                    state.counts.recovered += recovery.recovered.len() as u64;
                    state.counts.interrupted += recovery.interrupted.len() as u64;
                    state.counts.stale += u64::from(kind == Settlement::Stale.as_str());
                    drop(state);
                    events.push(Event::of(kind, &claim));
                }
                // Nobody renews it any more: it is recovered when its lease ends.
                Err(error) => log::warn!("job {:?} is recovered when its lease ends: {error}", claim.job_id),
            }
        }
        reported
    }

    /// Have new claims renewed. One that comes too late to be started safely is handed back.
    fn keep(&self, claims: Vec<Arc<Claim>>, asked_at: Micros) -> Vec<Waiting> {
        let lease = Some(self.shared.options.lease);
        let keep = |claim: &Arc<Claim>| Keep { key: claim.key.clone(), lease, timeout: None, asked_at };
        let keeps: Vec<_> = claims.iter().map(keep).collect();
        let now = self.shared.store.clock().now().uptime;
        let tokens = match keeps.first().is_some_and(|keep| keep.is_late(now)) {
            true => None,
            false => self
                .shared
                .keeper
                .keep_all(keeps)
                .inspect_err(|error| log::error!("{} claims are handed back: {error}", claims.len()))
                .ok(),
        };
        if let Some(tokens) = tokens {
            claims.into_iter().zip(tokens).collect()
        } else {
            self.shared.lock().release(claims);
            Vec::new()
        }
    }

    /// When to look again where no change is reported: once the next job is due, or at the next poll.
    fn look_again(&mut self, next_in: Option<Micros>) {
        let poll = self.shared.options.poll;
        let due = next_in.map_or(poll, |left| Duration::from_micros(u64::try_from(left).unwrap_or(0)));
        self.look_at = Instant::now() + due.min(poll);
    }

    /// Leave the store alone for a while, longer after each failure. The error is returned.
    fn trouble(&mut self, error: Error) -> Result<()> {
        if matches!(error, Error::Closed | Error::Forked { .. }) {
            return Err(error);
        }
        let longest = if matches!(error, Error::StorageFull { .. }) { LONGEST_RETREAT_FULL } else { LONGEST_RETREAT };
        let pause = self.retreat.mul_f64(0.75 + fastrand::f64() / 2.0); // so that several workers do not come back at once
        self.retry_at = Some(Instant::now() + pause);
        self.retreat = (self.retreat * 2).min(longest);
        if self.shared.trouble.is_due() {
            log::warn!("the worker's store does not answer as it should, and is tried again: {error}");
        }
        self.shared.lock().problem = Some(error.to_string());
        Err(error)
    }
}

fn event(claim: &Arc<Claim>, ending: &Ending, answer: &Result<Settlement>) -> Event {
    let (kind, available_at) = match answer {
        Ok(settlement) => (
            settlement.as_str(),
            match settlement {
                Settlement::Retried { available_at } | Settlement::Snoozed { available_at } => *available_at,
                _ => None,
            },
        ),
        Err(_) => (Settlement::Stale.as_str(), None),
    };
    let reason = match ending {
        Ending::Reported(Report::Failed { reason, .. }) => Some(reason.clone()),
        Ending::Reported(Report::Cancelled { reason }) => reason.clone(),
        _ => None,
    };
    Event { available_at, reason, ..Event::of(kind, claim) }
}
