//! What would be said again and again, and is said now and then.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often trouble that goes on is logged.
pub(crate) const TROUBLE_PAUSE: Duration = Duration::from_secs(60);

/// Allows something once, and again after each pause.
pub(crate) struct Seldom {
    pause: Duration,
    last: Mutex<Option<Instant>>,
}

impl Seldom {
    /// At most once in a `pause`.
    pub(crate) fn new(pause: Duration) -> Self {
        Self { pause, last: Mutex::default() }
    }

    /// Whether it is its time. Then the pause begins.
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|at| at.elapsed() >= self.pause);
        if due {
            *last = Some(Instant::now());
        }
        due
    }

    /// The next time is at once.
    pub(crate) fn forget(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
