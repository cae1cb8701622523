//! Noticing what other connections commit, in this process or another one, within about a millisecond.
//!
//! A write to the log (`-wal`) is seen at once where the system tells of it (Linux), but it comes before the commit, whose
//! disk flush takes as long as it takes. So after each event the writer's connection is asked again and again, in growing
//! steps, whether anybody else has committed: `PRAGMA data_version` changes with the commits of other connections alone,
//! and costs microseconds. An idle file costs nothing.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "elsewhere.rs")]
mod events;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use self::events::{Events, LONGEST_PAUSE, Stopper};
use super::group::Committer;
use crate::store::Change;

/// The pause between an event and a look, and between the first looks.
const FIRST_PAUSE: Duration = Duration::from_micros(80);
/// Later ones are this part of the wait so far: whatever the flush takes, it is noticed an eighth later, and seconds of waiting
/// cost a few dozen looks.
const SHARE: u32 = 8;
/// Events that are further apart than this are no stream.
const APART: Duration = Duration::from_millis(2);
/// The longest pause while events come: our own commits bring a stream of them.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// The pause after something was found, so that a stream of it costs little.
const FOUND_PAUSE: Duration = Duration::from_micros(300);
/// How long to look after the last event. On a busy disk a flush took more than a quarter of a second; one that takes longer
/// than this is found by polling.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an event stream says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Something was written, or may have been.
    Written,
    /// The time was up.
    Nothing,
    /// The watch ends.
    Stopped,
}

/// The thread that looks. Ends when it is dropped.
pub(super) struct Watch {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Start to watch the file of `committer`.
    pub(super) fn start(committer: &Arc<Committer>) -> std::io::Result<Self> {
        let (events, stopper) = events::open(&committer.log_path())?;
        committer.changed_by_others(); // from here on
        let body = Arc::clone(committer);
        let thread = std::thread::Builder::new().name("bandog-watch".into()).spawn(move || run(&body, &events))?;
        Ok(Self { stopper, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(committer: &Committer, events: &Events) {
    loop {
        match events.wait(None) {
            Event::Stopped => return,
            Event::Nothing => {}
            Event::Written => {
                if look(committer, events) == Event::Stopped {
                    return;
                }
            }
        }
    }
}

/// Look until the last event is so long ago that its commit has come.
///
/// What is found does not end it: it may be an earlier commit than the one whose writes were the last event, or the fresh
/// start of a log that had been copied back, which others see before the commit that made it.
fn look(committer: &Committer, events: &Events) -> Event {
    let share = |waited: Duration| (waited / SHARE).min(LONGEST_PAUSE);
    let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
    loop {
        if committer.changed_by_others() {
            committer.changes().report(Change { queued: true, unknown: true });
            pause = FOUND_PAUSE.max(share(waited));
        }
        if waited >= PATIENCE {
            return Event::Nothing;
        }
        // Deaf to events for a moment, so that a stream of them cannot make this a busy loop.
        let deaf = pause.min(BUSY_PAUSE);
        if events.rest(deaf) == Event::Stopped {
            return Event::Stopped;
        }
        match events.wait(Some(pause.saturating_sub(deaf))) {
            Event::Stopped => return Event::Stopped,
            Event::Written => {
                pause = if waited < APART { (pause * 2).min(BUSY_PAUSE) } else { FIRST_PAUSE };
                waited = Duration::ZERO;
            }
            Event::Nothing => {
                waited += pause;
                pause = pause.max(share(waited));
            }
        }
    }
}
