//! The token that an executor watches: aborted once, with a reason.
//!
//! A token knows the end of its lease and compares it with the clock whenever it is asked, so that it tells the truth even
//! while every thread of the engine is stuck behind a slow disk.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::job::Micros;

/// Why an executor should stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// Somebody asked for the job's cancellation; with the reason that was given.
    CancelRequested(String),
    /// The claim no longer holds, or cannot be known to: another worker may have the job by now.
    LeaseLost,
    /// The worker shuts down.
    Shutdown,
    /// The job has taken longer than it may.
    Timeout,
}

impl AbortReason {
    /// The word that Python sees.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::CancelRequested(_) => "cancel_requested",
            Self::LeaseLost => "lease_lost",
            Self::Shutdown => "shutdown",
            Self::Timeout => "timeout",
        }
    }
}

type Callback = Box<dyn FnOnce(&AbortReason) + Send>;

#[derive(Default)]
struct State {
    reason: Option<AbortReason>,
    callbacks: Vec<Callback>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    deadline: AtomicI64,
    state: Mutex<State>,
    aborted: Condvar,
}

/// Shared by the engine, which aborts it, and the executor, which watches it.
#[derive(Clone)]
pub struct CancellationToken(Arc<Inner>);

impl fmt::Debug for CancellationToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CancellationToken").field("reason", &self.reason()).finish()
    }
}

impl CancellationToken {
    /// A token that aborts by itself at `deadline` (uptime); `Micros::MAX` for never.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, deadline: Micros) -> Self {
        Self(Arc::new(Inner {
            clock,
            deadline: AtomicI64::new(deadline),
            state: Mutex::default(),
            aborted: Condvar::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease was renewed.
    pub fn set_deadline(&self, deadline: Micros) {
        self.0.deadline.store(deadline, Ordering::SeqCst);
    }

    /// When the lease ends unless it is renewed (uptime).
    #[must_use]
    pub fn deadline(&self) -> Micros {
        self.0.deadline.load(Ordering::SeqCst)
    }

    /// Abort it. The first reason stands.
    pub fn abort(&self, reason: AbortReason) {
        let mut state = self.lock();
        if state.reason.is_some() {
            return;
        }
        state.reason = Some(reason.clone());
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.0.aborted.notify_all();
        for callback in callbacks {
            callback(&reason);
        }
    }

    /// Why it was aborted; `None` while it was not.
    #[must_use]
    pub fn reason(&self) -> Option<AbortReason> {
        let reason = self.lock().reason.clone();
        if reason.is_none() && self.0.clock.now().uptime >= self.deadline() {
            self.abort(AbortReason::LeaseLost);
            return self.lock().reason.clone();
        }
        reason
    }

    /// Have `callback` called when it is aborted, or at once where it was. It runs on the thread that aborts, and must not
    /// block.
    pub fn on_abort(&self, callback: impl FnOnce(&AbortReason) + Send + 'static) {
        let mut state = self.lock();
        if let Some(reason) = state.reason.clone() {
            drop(state);
            callback(&reason);
        } else {
            state.callbacks.push(Box::new(callback));
        }
    }

    /// Sleep until it is aborted or `until` has come; the reason, if any.
    #[must_use]
    pub fn wait_until(&self, until: Instant) -> Option<AbortReason> {
        loop {
            if let Some(reason) = self.reason() {
                return Some(reason);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let micros = self.deadline().saturating_sub(self.0.clock.now().uptime);
            let lease = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
            let sleep = left.min(lease).min(self.0.clock.longest_sleep());
            let state = self.lock();
            if state.reason.is_none() {
                drop(self.0.aborted.wait_timeout(state, sleep).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::FakeClock;
    use std::sync::mpsc;

    fn token() -> (FakeClock, CancellationToken) {
        let clock = FakeClock::new(0);
        let deadline = clock.now().uptime + 10;
        (clock.clone(), CancellationToken::new(Arc::new(clock), deadline))
    }

    #[test]
    fn the_first_reason_stands_and_reaches_every_callback() {
        let (_clock, token) = token();
        let (sender, receiver) = mpsc::channel();
        let early = sender.clone();
        token.on_abort(move |reason| early.send(reason.clone()).unwrap());
        token.abort(AbortReason::Shutdown);
        token.abort(AbortReason::Timeout);
        token.on_abort(move |reason| sender.send(reason.clone()).unwrap());
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [AbortReason::Shutdown, AbortReason::Shutdown]);
    }

    #[test]
    fn an_expired_lease_aborts_it_without_any_help() {
        let (clock, token) = token();
        assert_eq!(token.reason(), None);
        clock.advance(10);
        assert_eq!(token.reason(), Some(AbortReason::LeaseLost));
        assert_eq!(token.wait_until(Instant::now()), Some(AbortReason::LeaseLost));
    }
}
