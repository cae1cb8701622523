//! The words of looking after stored jobs: cancel, fail a lane, purge, requeue, list, count, probe. Plain data.

use crate::job::{ClaimKey, JobRecord, Micros, OutcomeKind};

/// What became of a request to cancel a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// It was queued, and never runs: settled `cancelled`.
    Cancelled,
    /// It is running: its executor is told, and its record says so until it ends.
    Requested {
        /// The claim.
        key: ClaimKey,
        /// The reason of the first request, which stands.
        reason: String,
    },
    /// It was settled before; nothing was changed.
    Settled(OutcomeKind),
}

/// What failing a lane did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedLane {
    /// How many jobs were settled `failed`.
    pub failed: u32,
    /// How many are queued in the lane still, counted up to a bound.
    pub left: u32,
}

/// Which settled jobs to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeRequest {
    /// Only those that were settled at least so long ago.
    pub older_than: Micros,
    /// Only those with one of these outcomes.
    pub outcomes: Vec<OutcomeKind>,
    /// How many at most.
    pub limit: u32,
}

/// What became of a job that was to be requeued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// It is queued, with all its attempts.
    Requeued,
    /// Its outcome takes `force`, or cannot be undone; nothing was changed.
    Refused(OutcomeKind),
    /// It is queued or running; nothing was changed.
    NotSettled,
}

/// Which jobs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsRequest {
    /// Only those in this state.
    pub state: Option<StateFilter>,
    /// Only those of this queue.
    pub queue: Option<String>,
    /// Only those of this lane.
    pub lane: Option<String>,
    /// Where the last page ended.
    pub after: Option<Cursor>,
    /// How many at most.
    pub limit: u32,
}

/// A state to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateFilter {
    /// Queued jobs.
    Queued,
    /// Running jobs.
    Running,
    /// Settled jobs, of one outcome or of any.
    Settled(Option<OutcomeKind>),
}

/// A place in a list: the time that orders it (0 where none does), and the order number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// When the job was settled or claimed.
    pub at: Micros,
    /// Its order number.
    pub number: i64,
}

/// One page of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The jobs.
    pub jobs: Vec<JobRecord>,
    /// Where the next page starts; `None` after the last.
    pub next: Option<Cursor>,
}

/// What is in a store. No count goes beyond the bound that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// By queue, those that have queued or running jobs.
    pub queues: Vec<(String, QueueStats)>,
    /// How many jobs have each outcome.
    pub outcomes: Vec<(OutcomeKind, u32)>,
    /// What keeps the server from removing dead rows; `None` for nothing, and for a file.
    pub oldest_snapshot: Option<Snapshot>,
}

/// A view of the past that a server keeps dead rows for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// `session`, `prepared` or `slot`.
    pub kind: String,
    /// The server's process, the prepared transaction's id, or the slot's name.
    pub holder: String,
    /// What a session calls itself.
    pub application: Option<String>,
    /// How long ago its transaction began, where that may be known.
    pub age: Option<Micros>,
    /// How many transactions have begun since.
    pub transactions: u32,
}

/// What is in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Queued jobs, those for later included.
    pub queued: u32,
    /// Queued jobs that are due.
    pub due: u32,
    /// Claimed jobs.
    pub running: u32,
    /// Since when the longest waiting job is due.
    pub oldest_due: Option<Micros>,
}

/// A running claim that a liveness probe stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Probed {
    /// The claim.
    pub key: ClaimKey,
    /// Where it stands among them, the oldest first.
    pub cursor: Cursor,
    /// The job.
    pub job: JobRecord,
}
