//! Where the system does not tell of writes to a file: a look every few milliseconds.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Event;

/// Between two looks: 200 of them a second cost less than half a percent of a core.
const INTERVAL: Duration = Duration::from_millis(5);

/// The longest pause between two looks.
pub(super) const LONGEST_PAUSE: Duration = INTERVAL;

/// A clock that says `Written` at each beat.
pub(super) struct Events(Mutex<Receiver<()>>);

/// Ends the waiting.
pub(super) struct Stopper(Sender<()>);

#[allow(clippy::unnecessary_wraps, reason = "as where the system tells of writes")]
pub(super) fn open(_: &Path) -> std::io::Result<(Events, Stopper)> {
    let (sender, receiver) = channel();
    Ok((Events(Mutex::new(receiver)), Stopper(sender)))
}

impl Stopper {
    pub(super) fn stop(&self) {
        let _ = self.0.send(());
    }
}

impl Events {
    pub(super) fn wait(&self, limit: Option<Duration>) -> Event {
        match self.rest(limit.unwrap_or(INTERVAL)) {
            Event::Nothing if limit.is_none() => Event::Written,
            other => other,
        }
    }

    pub(super) fn rest(&self, pause: Duration) -> Event {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => Event::Nothing,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Event::Stopped,
        }
    }
}
