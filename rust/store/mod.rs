//! The seam to a database: one method per operation, in the order of a job's life, batch first.
//!
//! Every method returns at once with a [`Completion`]; what it does is one transaction. Engine and boundary know only this
//! trait, so that a store behind a network fits in beside a file.

mod sql;
pub mod sqlite;

use crate::completion::Completion;
use crate::error::Result;
use crate::job::{
    Admission, ClaimName, ClaimRequest, Claimed, JobRecord, Micros, NewJob, Recovered, Renewal, Report, Settlement,
};

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

    /// Put up to `limit` lost claims back, or settle them `interrupted` where no budget is left.
    fn recover(&self, limit: u32) -> Completion<Recovered>;

    /// What is known of jobs, by id; `None` for an unknown one.
    fn read(&self, job_ids: Vec<String>) -> Completion<Vec<Option<JobRecord>>>;

    /// Whether any job is queued (also for later) or running.
    fn has_pending_work(&self) -> Completion<bool>;

    /// When the next queued job is due or the next claim expires, as wall time; `None` with nothing pending.
    fn next_wake(&self) -> Completion<Option<Micros>>;

    /// Finish what was asked for, then let go of the database. Later calls fail with `Closed`.
    fn close(&self);

    /// The clock that the leases of this process are measured on.
    fn clock(&self) -> std::sync::Arc<dyn crate::clock::Clock>;
}

/// The answer to one ingested job.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingested {
    /// What became of it.
    pub admission: Admission,
    /// The stored job as it is now: under `Conflict` the one that holds the id.
    pub record: JobRecord,
}
