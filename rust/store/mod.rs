//! The seam to a database: one method per operation, in the order of a job's life, batch first.
//!
//! Every method returns at once with a [`Completion`]; what it does is one transaction. Engine and boundary know only this
//! trait, so that a store behind a network fits in beside a file.

mod changes;
#[cfg(feature = "postgres")]
pub mod postgres;
mod sql;
pub mod sqlite;

use crate::completion::Completion;
use crate::error::Result;
use crate::job::{
    Admission, ClaimKey, ClaimName, ClaimRequest, Claimed, JobRecord, Micros, NewJob, Recovered, Renewal, Report,
    Settlement,
};
use crate::management::{Cancellation, Cursor, FailedLane, JobsRequest, Page, Probed, PurgeRequest, Requeue, Stats};

/// A database that holds jobs.
pub trait Store: Send + Sync {
    /// Store jobs, all durable when it completes; one answer per job, and a conflict spoils no other job.
    fn ingest(&self, jobs: Vec<NewJob>) -> Completion<Vec<Ingested>>;

    /// Recover a bounded batch of lost claims, then claim up to `limit` due jobs for one worker.
    fn claim(&self, request: ClaimRequest) -> Completion<Claimed>;

    /// Prolong claims by `lease` from now, each only where it still holds.
    fn renew(&self, claims: Vec<ClaimName>, lease: Micros) -> Completion<Vec<Result<Renewal>>>;

    /// End claims with what their holders report, each only where it still holds.
    fn settle(&self, reports: Vec<(ClaimName, Report)>) -> Completion<Vec<Result<Settlement>>>;

    /// Settle claims and claim more: what a worker does between two batches of jobs. In one transaction where that saves
    /// one; a store with a connection for each does both at once.
    fn exchange(&self, reports: Vec<(ClaimName, Report)>, claim: Option<ClaimRequest>) -> Completion<Exchanged>;

    /// Whether claiming and settling go on beside each other, so that neither needs to wait for the other.
    fn claims_apart(&self) -> bool;

    /// Put up to `limit` lost claims back, or settle them `interrupted` where no budget is left.
    fn recover(&self, limit: u32) -> Completion<Recovered>;

    /// Cancel a queued job, or ask a running one to stop; one answer per job id and reason.
    fn cancel(&self, jobs: Vec<(String, String)>) -> Completion<Vec<Result<Cancellation>>>;

    /// Settle up to `limit` queued jobs of one lane as `failed`.
    fn fail_lane(&self, queue: String, lane: String, reason: String, limit: u32) -> Completion<FailedLane>;

    /// Bound how many jobs of a lane may be queued; `None` for no bound.
    fn set_lane_limit(&self, queue: String, lane: String, most: Option<u32>) -> Completion<()>;

    /// Forget settled jobs; how many.
    fn purge(&self, request: PurgeRequest) -> Completion<u32>;

    /// Give settled jobs a new life; `force` also those whose outcome is unknown, and cancelled ones.
    fn requeue(&self, job_ids: Vec<String>, force: bool) -> Completion<Vec<Result<Requeue>>>;

    /// Jobs that failed or were interrupted, in the order in which they were settled.
    fn dead_letters(&self, queue: Option<String>, after: Option<Cursor>, limit: u32) -> Completion<Page>;

    /// Jobs in order of admission.
    fn jobs(&self, request: JobsRequest) -> Completion<Page>;

    /// What there is to do and what was done, counted up to `bound`.
    fn stats(&self, bound: u32) -> Completion<Stats>;

    /// The oldest claim that a liveness probe stands for, after a place in that order.
    fn probe(&self, after: Option<Cursor>) -> Completion<Option<Probed>>;

    /// Recover one claim that is known to be lost, if it still runs; `how` says how it is known.
    fn recover_claim(&self, claim: ClaimKey, how: String) -> Completion<Recovered>;

    /// Give claims that a liveness probe stood for a lease, now that nobody probes them.
    fn adopt(&self, lease: Micros) -> Completion<()>;

    /// What is known of jobs, by id; `None` for an unknown one.
    fn read(&self, job_ids: Vec<String>) -> Completion<Vec<Option<JobRecord>>>;

    /// Whether any job is queued (also for later) or running.
    fn has_pending_work(&self) -> Completion<bool>;

    /// In how long the next job of these queues (`None`: of all) is due, or the next claim expires; zero for now, `None` with
    /// nothing pending. Takes no lock.
    fn next_due(&self, queues: Option<Vec<String>>) -> Completion<Option<Micros>>;

    /// When the next queued job is due or the next claim expires, as wall time; `None` with nothing pending.
    fn next_wake(&self) -> Completion<Option<Micros>>;

    /// Which schema of which database of which server the jobs are in, as one text; `None` for a file.
    fn schema_identity(&self) -> Completion<Option<String>>;

    /// Take part in running the jobs, until the answer is dropped; refused beside a runtime that it does not go with.
    ///
    /// # Errors
    /// `RuntimeConflict` with who is there.
    fn lock_runtime(&self, runtime: Runtime) -> Result<RuntimeLock>;

    /// Have `report` called after each durable change, of this store or of another process, until the answer is dropped.
    /// It must not block. Always only a hint: a change may go unnoticed.
    fn subscribe(&self, report: Subscriber) -> Subscription;

    /// Finish what was asked for, then let go of the database. Later calls fail with `Closed`.
    fn close(&self);

    /// The clock that the leases of this process are measured on.
    fn clock(&self) -> std::sync::Arc<dyn crate::clock::Clock>;
}

/// What is told of a durable change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Whether a job may be waiting now that was not waiting before.
    pub queued: bool,
    /// Whether it is not known what was changed: worth a look, but not a lock.
    pub unknown: bool,
}

/// Who is told of changes.
pub type Subscriber = Box<dyn Fn(Change) + Send + Sync>;

/// Held by a subscriber while it wants to be told.
pub type Subscription = Box<dyn Send + Sync>;

/// The answer to an exchange.
#[derive(Debug)]
pub struct Exchanged {
    /// What became of each report.
    pub settlements: Result<Vec<Result<Settlement>>>,
    /// What was claimed; nothing where no claim was asked for.
    pub claimed: Result<Claimed>,
}

/// How a runtime knows that a claim is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// By its lease.
    Lease,
    /// By a liveness probe of its host.
    Probe,
}

/// Held by a runtime while it runs.
pub type RuntimeLock = Box<dyn Send + Sync>;

/// The answer to one ingested job.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingested {
    /// What became of it.
    pub admission: Admission,
    /// The stored job as it is now: under `Conflict` the one that holds the id, under `Refused` none.
    pub record: Option<JobRecord>,
    /// The job's id.
    pub job_id: String,
}
