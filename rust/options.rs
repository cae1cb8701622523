//! Settings of an open store, with their defaults and units.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::job::{Micros, SECOND};

/// The default length of a lease (seed: two minutes).
pub const DEFAULT_LEASE: Micros = 120 * SECOND;
/// The shortest lease: below it, renewals every quarter would be lost to one slow disk flush.
pub const SHORTEST_LEASE: Micros = SECOND / 2;
/// The longest pause between two renewals (seed: ten seconds).
pub const LONGEST_RENEWAL_PAUSE: Micros = 10 * SECOND;
/// The default limit of a canonical payload, result or evidence (seed: one mebibyte).
pub const DEFAULT_PAYLOAD_LIMIT: usize = 1 << 20;
/// How many lost claims one claim or one tick deals with.
pub const RECOVERY_BATCH: u32 = 100;

/// How much a commit waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// Every commit is on the disk when the call returns: it survives a power cut.
    #[default]
    Full,
    /// Commits reach the operating system: they survive the death of the process, and a power cut may take the latest
    /// ones back.
    Normal,
}

/// What to do with a file that lies on a network file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkFiles {
    /// Refuse it: locks and shared memory do not work there, and the file is destroyed sooner or later.
    #[default]
    Refuse,
    /// Open it, on the caller's own responsibility.
    Allow,
}

/// The settings of a SQLite store.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// How much a commit waits for the disk.
    pub synchronous: Synchronous,
    /// How long a call waits for the write lock that another connection holds.
    pub busy_timeout: Duration,
    /// Whether a network file system is refused.
    pub network_files: NetworkFiles,
    /// Where "now" comes from.
    pub clock: Arc<dyn Clock>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            network_files: NetworkFiles::Refuse,
            clock: Arc::new(SystemClock),
        }
    }
}
