//! How a thread waits for a lock that another connection holds.

use std::time::Duration;

/// The pauses between attempts at a lock that another connection holds: short and jittered. SQLite's stock handler sleeps
/// up to 100 ms between attempts, and beside a tight loop of another writer got one commit in ninety.
#[derive(Default)]
pub(super) struct Pause {
    attempts: u32,
}

impl Pause {
    pub(super) fn sleep(&mut self) {
        self.attempts += 1;
        let most = if self.attempts < 50 { 200 } else { 2_000 };
        std::thread::sleep(Duration::from_micros(fastrand::u64(most / 4..most)));
    }
}
