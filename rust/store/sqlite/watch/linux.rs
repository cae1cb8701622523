//! Events of the log, as inotify tells them.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify;
use rustix::io::Errno;

use super::Event;

/// The longest pause between two looks, which any write ends.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Writes to one file.
pub(super) struct Events {
    inotify: OwnedFd,
    stop: Arc<OwnedFd>,
}

/// Ends the waiting.
pub(super) struct Stopper(Arc<OwnedFd>);

/// Watch a file that exists.
pub(super) fn open(path: &Path) -> std::io::Result<(Events, Stopper)> {
    let inotify = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&inotify, path, inotify::WatchFlags::MODIFY)?;
    let stop = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
    Ok((Events { inotify, stop: Arc::clone(&stop) }, Stopper(stop)))
}

impl Stopper {
    pub(super) fn stop(&self) {
        let _ = rustix::io::write(self.0.as_fd(), &1_u64.to_ne_bytes());
    }
}

impl Events {
    /// Wait for a write, for so long at most, and take all that have come.
    pub(super) fn wait(&self, limit: Option<Duration>) -> Event {
        let mut waits = [PollFd::new(&*self.stop, PollFlags::IN), PollFd::new(&self.inotify, PollFlags::IN)];
        sleep(&mut waits, limit);
        let [stop, written] = waits.map(|wait| !wait.revents().is_empty());
        if written {
            self.drain();
        }
        if stop {
            Event::Stopped
        } else if written {
            Event::Written
        } else {
            Event::Nothing
        }
    }

    /// Sleep, whatever is written.
    pub(super) fn rest(&self, pause: Duration) -> Event {
        let mut waits = [PollFd::new(&*self.stop, PollFlags::IN)];
        sleep(&mut waits, Some(pause));
        if waits[0].revents().is_empty() { Event::Nothing } else { Event::Stopped }
    }

    fn drain(&self) {
        let mut room = [MaybeUninit::<u8>::uninit(); 4096];
        loop {
            match rustix::io::read(&self.inotify, &mut room) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

fn sleep(waits: &mut [PollFd<'_>], limit: Option<Duration>) {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    // Interrupted or failed, it is as if the time were up.
    let _ = poll(waits, limit.as_ref());
}
