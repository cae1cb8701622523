//! Where "now" comes from: the wall clock for schedules, the machine's uptime for leases, and the boot that it belongs to.
//!
//! Uptime includes sleep (`CLOCK_BOOTTIME`): a laptop that slept for an hour has let its leases lapse. It never steps, so
//! that setting the wall clock steals no lease.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::job::Micros;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// Microseconds since 1970 (UTC).
    pub wall: Micros,
    /// Microseconds since the machine was started, sleep included.
    pub uptime: Micros,
}

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Both clocks, now.
    fn now(&self) -> Instants;

    /// What names the present boot. Uptimes of different boots cannot be compared.
    fn boot(&self) -> String;

    /// The longest that a thread may sleep before it looks at this clock again: a clock that is moved by hand moves
    /// without waking anyone.
    fn longest_sleep(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instants {
        let wall = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
        Instants { wall, uptime: uptime() }
    }

    fn boot(&self) -> String {
        boot()
    }
}

#[cfg(target_os = "linux")]
fn uptime() -> Micros {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec of the right type; CLOCK_BOOTTIME exists since Linux 2.6.39.
    #[allow(unsafe_code, reason = "the standard library has no clock that counts sleep")]
    unsafe {
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time);
    }
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

#[cfg(target_os = "linux")]
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| "unknown".into(), |id| id.trim().to_owned())
}

/// Untested: no such machine was at hand. `CLOCK_MONOTONIC` counts sleep on macOS.
#[cfg(all(unix, not(target_os = "linux")))]
fn uptime() -> Micros {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec of the right type.
    #[allow(unsafe_code, reason = "the standard library's Instant has no epoch to store")]
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
    }
    i64::from(time.tv_sec) * 1_000_000 + i64::from(time.tv_nsec) / 1_000
}

/// Untested: no such machine was at hand. The kernel's own name of the boot.
#[cfg(all(unix, not(target_os = "linux")))]
fn boot() -> String {
    std::process::Command::new("sysctl")
        .args(["-n", "kern.bootsessionuuid"])
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| "unknown".into(), |id| id.trim().to_owned())
}

/// Untested: no such machine was at hand. Falls back to the wall clock, so there stepping it does move leases.
#[cfg(not(unix))]
fn uptime() -> Micros {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(not(unix))]
fn boot() -> String {
    "wall clock".into()
}

/// A clock that stands still until a test moves it. Clones share the time.
#[derive(Clone, Debug)]
pub struct FakeClock(Arc<FakeTime>);

#[derive(Debug)]
struct FakeTime {
    wall: AtomicI64,
    uptime: AtomicI64,
    boot: Mutex<String>,
}

impl FakeClock {
    /// A clock that shows `wall`, one hour after the boot named "first".
    #[must_use]
    pub fn new(wall: Micros) -> Self {
        Self(Arc::new(FakeTime {
            wall: AtomicI64::new(wall),
            uptime: AtomicI64::new(3_600_000_000),
            boot: Mutex::new("first".into()),
        }))
    }

    /// Time passes: both clocks go on.
    pub fn advance(&self, by: Micros) {
        self.0.wall.fetch_add(by, Ordering::SeqCst);
        self.0.uptime.fetch_add(by, Ordering::SeqCst);
    }

    /// Somebody sets the wall clock: only it moves, forwards or back.
    pub fn step_wall(&self, by: Micros) {
        self.0.wall.fetch_add(by, Ordering::SeqCst);
    }

    /// The machine is started again: the uptime begins anew, under another name.
    pub fn reboot(&self, boot: &str) {
        boot.clone_into(&mut self.0.boot.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.uptime.store(1_000_000, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Instants {
        Instants { wall: self.0.wall.load(Ordering::SeqCst), uptime: self.0.uptime.load(Ordering::SeqCst) }
    }

    fn boot(&self) -> String {
        self.0.boot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn longest_sleep(&self) -> Duration {
        Duration::from_millis(1)
    }
}
