//! The lease keeper: one thread that renews every claim that this process holds.
//!
//! It needs no interpreter lock, no event loop and no connection that a job could hold, so that a claim is kept while its
//! executor blocks all of them. The deadline of a claim is counted from before it was asked for: when renewals have not
//! landed by then, the claim may be another worker's, and its token is aborted, whatever the store would say.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cancellation::{AbortReason, CancellationToken};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::job::{ClaimKey, ClaimName, Micros, Renewal};
use crate::options::{DEFAULT_LEASE, LONGEST_RENEWAL_PAUSE};
use crate::seldom::{Seldom, TROUBLE_PAUSE};
use crate::store::Store;

/// One claim that is kept.
struct Held {
    /// `None` under a liveness probe: then renewing only asks whether the cancellation was asked for.
    lease: Option<Micros>,
    renew_at: Micros,
    /// When its executor has taken too long (uptime); `Micros::MAX` for never, and once its token knows.
    times_out_at: Micros,
    token: CancellationToken,
}

/// What is kept: a claim, how it is held, and since when (uptime).
#[derive(Clone, Debug)]
pub struct Keep {
    /// The claim.
    pub key: ClaimKey,
    /// How long it holds without renewal; `None` under a liveness probe.
    pub lease: Option<Micros>,
    /// How long its executor may take, counted from `asked_at`.
    pub timeout: Option<Micros>,
    /// When it was asked for.
    pub asked_at: Micros,
}

impl Keep {
    /// Whether less than half the lease is left: by the time an executor has started, another worker could have it.
    #[must_use]
    pub fn is_late(&self, now: Micros) -> bool {
        self.lease.is_some_and(|lease| now.saturating_sub(self.asked_at) > lease / 2)
    }
}

impl Held {
    /// When something is to be done about it.
    fn next(&self) -> Micros {
        self.renew_at.min(self.times_out_at).min(self.token.deadline())
    }
}

#[derive(Default)]
struct State {
    held: HashMap<ClaimKey, Held>,
    /// Until when the thread sleeps (uptime). Only what comes earlier needs to wake it.
    asleep_until: Micros,
    stopped: bool,
}

struct Shared {
    state: Mutex<State>,
    /// For the log.
    trouble: Seldom,
    changed: Condvar,
    clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
}

/// Keeps claims until they are let go of.
pub struct LeaseKeeper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How long after its start, or after the last renewal, a claim is renewed.
#[must_use]
pub fn renewal_pause(lease: Option<Micros>) -> Micros {
    (lease.unwrap_or(DEFAULT_LEASE) / 4).min(LONGEST_RENEWAL_PAUSE)
}

impl LeaseKeeper {
    /// A keeper of claims in `store`. Its thread starts with the first claim.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        let clock = store.clock();
        let trouble = Seldom::new(TROUBLE_PAUSE);
        let shared = Shared { state: Mutex::default(), trouble, changed: Condvar::new(), clock, store };
        Self { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Keep a claim. The token is aborted when it is lost, when its cancellation is asked for, and when it takes too long.
    ///
    /// # Errors
    /// `StoreFailed` where the thread could not be started; then the claim is not kept.
    pub fn keep(&self, keep: Keep) -> Result<CancellationToken> {
        let mut tokens = self.keep_all(vec![keep])?;
        tokens.pop().ok_or(Error::Closed)
    }

    /// Keep several claims; one token each, in order.
    ///
    /// # Errors
    /// As [`Self::keep`]; then none is kept.
    pub fn keep_all(&self, keeps: Vec<Keep>) -> Result<Vec<CancellationToken>> {
        if keeps.is_empty() {
            return Ok(Vec::new());
        }
        self.ensure_thread()?;
        let mut tokens = Vec::with_capacity(keeps.len());
        let mut state = self.shared.lock();
        let mut earlier = false;
        for Keep { key, lease, timeout, asked_at } in keeps {
            let deadline = asked_at.saturating_add(lease.unwrap_or(Micros::MAX));
            let token = CancellationToken::new(Arc::clone(&self.shared.clock), deadline);
            let held = Held {
                lease,
                renew_at: asked_at.saturating_add(renewal_pause(lease)),
                times_out_at: timeout.map_or(Micros::MAX, |timeout| asked_at.saturating_add(timeout)),
                token: token.clone(),
            };
            earlier |= held.next() < state.asleep_until;
            state.held.insert(key, held);
            tokens.push(token);
        }
        drop(state);
        if earlier {
            self.shared.changed.notify_one();
        }
        Ok(tokens)
    }

    /// From now on its executor may take so long. Nothing where the claim is not kept.
    pub fn set_timeout(&self, key: &ClaimKey, timeout: Micros) {
        let times_out_at = self.shared.clock.now().uptime.saturating_add(timeout);
        let mut state = self.shared.lock();
        let earlier = times_out_at < state.asleep_until;
        if let Some(held) = state.held.get_mut(key) {
            held.times_out_at = times_out_at;
            drop(state);
            if earlier {
                self.shared.changed.notify_one();
            }
        }
    }

    /// Stop keeping a claim: it was settled, or shall lapse.
    pub fn let_go(&self, key: &ClaimKey) {
        let gone = self.shared.lock().held.remove(key);
        drop(gone); // under no lock: what a token's callbacks hold may do anything when it goes
    }

    /// Stop keeping several claims.
    pub fn let_go_all<'key>(&self, keys: impl Iterator<Item = &'key ClaimKey>) {
        let mut state = self.shared.lock();
        let gone: Vec<_> = keys.filter_map(|key| state.held.remove(key)).collect();
        drop(state);
        drop(gone); // under no lock, as above
    }

    /// The cancellation of a job was asked for: tell its executor now, if it runs here. Elsewhere the next renewal does.
    pub fn cancel_requested(&self, key: &ClaimKey, reason: &str) {
        let token = self.shared.lock().held.get(key).map(|held| held.token.clone());
        if let Some(token) = token {
            token.abort(AbortReason::CancelRequested(reason.to_owned()));
        }
    }

    /// How many claims are kept.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.lock().held.len()
    }

    /// Stop renewing. What is still held lapses.
    pub fn stop(&self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn ensure_thread(&self) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new().name("bandog-lease".into()).spawn(move || shared.run());
            *thread = Some(started.map_err(|error| Error::StoreFailed {
                target: "the lease keeper".into(),
                problem: format!("its thread could not be started: {error}"),
            })?);
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let mut state = self.lock();
            loop {
                if state.stopped {
                    return;
                }
                let now = self.clock.now().uptime;
                let next = state.held.values().map(Held::next).min();
                state.asleep_until = next.unwrap_or(Micros::MAX);
                let left = u64::try_from(state.asleep_until.saturating_sub(now)).unwrap_or(0);
                if left == 0 {
                    break;
                }
                let sleep = Duration::from_micros(left).min(self.clock.longest_sleep());
                state = self.changed.wait_timeout(state, sleep).unwrap_or_else(PoisonError::into_inner).0;
            }
            drop(state);
            self.abort_lapsed();
            self.renew_due();
        }
    }

    /// Claims that were not renewed in time are given up, here and now. Those that take too long are told, and kept.
    fn abort_lapsed(&self) {
        let now = self.clock.now().uptime;
        let mut aborted = Vec::new();
        self.lock().held.retain(|_, held| {
            let holds = now < held.token.deadline();
            if !holds {
                aborted.push((held.token.clone(), AbortReason::LeaseLost));
            } else if now >= held.times_out_at {
                held.times_out_at = Micros::MAX;
                aborted.push((held.token.clone(), AbortReason::Timeout));
            }
            holds
        });
        for (token, reason) in aborted {
            token.abort(reason);
        }
    }

    /// Renew what is due, one call per length of lease.
    fn renew_due(&self) {
        let asked_at = self.clock.now().uptime;
        let mut due: HashMap<Option<Micros>, Vec<ClaimKey>> = HashMap::new();
        for (key, held) in &self.lock().held {
            if held.renew_at <= asked_at {
                due.entry(held.lease).or_default().push(key.clone());
            }
        }
        for (lease, mut keys) in due {
            keys.sort_unstable(); // by order number, so that two such writes cannot lock each other out
            let names = keys.iter().cloned().map(ClaimName::Number).collect();
            let mut completion = self.store.renew(names, lease.unwrap_or(DEFAULT_LEASE));
            let answer = loop {
                // Wait in slices, so that a stuck store does not keep lapsed tokens from being aborted.
                let slice = Duration::from_millis(50).min(self.clock.longest_sleep() * 10);
                match completion.wait_until(Instant::now() + slice) {
                    Some(answer) => break answer,
                    None => self.abort_lapsed(),
                }
                if self.lock().stopped {
                    return;
                }
            };
            match answer {
                Ok(renewals) => {
                    for (key, renewal) in keys.iter().zip(renewals) {
                        self.renewed(key, lease, asked_at, renewal);
                    }
                }
                Err(error) => self.failed(&keys, lease, &error),
            }
        }
    }

    fn renewed(&self, key: &ClaimKey, lease: Option<Micros>, asked_at: Micros, renewal: Result<Renewal>) {
        let mut state = self.lock();
        // Let go of meanwhile: settled, most likely, and then `Stale` says nothing.
        let Some(held) = state.held.get_mut(key) else { return };
        let token = held.token.clone();
        let reason = match renewal {
            Ok(Renewal::Renewed { cancel_requested }) => {
                token.set_deadline(asked_at.saturating_add(lease.unwrap_or(Micros::MAX)));
                held.renew_at = asked_at.saturating_add(renewal_pause(lease));
                cancel_requested.map(AbortReason::CancelRequested)
            }
            // Somebody holds the claim locked, most likely a transaction that settles it: it holds on, until its deadline.
            Err(Error::StoreBusy { .. }) => {
                held.renew_at = self.soon(lease);
                None
            }
            Ok(Renewal::Stale) | Err(_) => {
                state.held.remove(key);
                Some(AbortReason::LeaseLost)
            }
        };
        drop(state);
        if let Some(reason) = reason {
            token.abort(reason);
        }
    }

    /// When a renewal that did not land is tried again.
    fn soon(&self, lease: Option<Micros>) -> Micros {
        self.clock.now().uptime.saturating_add((lease.unwrap_or(DEFAULT_LEASE) / 16).min(crate::job::SECOND))
    }

    /// The store did not take the renewal: try again soon, until the deadline.
    fn failed(&self, keys: &[ClaimKey], lease: Option<Micros>, error: &Error) {
        if self.trouble.is_due() {
            log::warn!("{} claims could not be renewed and are tried again: {error}", keys.len());
        }
        let again = self.soon(lease);
        let mut state = self.lock();
        for key in keys {
            if let Some(held) = state.held.get_mut(key) {
                held.renew_at = again;
            }
        }
    }
}
