//! What a pool tells of its work: counts, and events for whoever wants them.

use std::sync::Arc;

use crate::job::{Claim, Micros, Settlement};

/// Where events go, a batch at a time. It must not block.
pub type EventSink = Box<dyn Fn(Vec<Event>) + Send + Sync>;

/// One change of a job's state that a pool made, or noticed.
#[derive(Clone, Debug)]
pub struct Event {
    /// `claimed`, `recovered`, `interrupted`, or the word of a [`Settlement`].
    pub kind: &'static str,
    /// The job's id.
    pub job_id: String,
    /// The claim; `None` where the pool did not hold it.
    pub claim: Option<Arc<Claim>>,
    /// When a job that was put back is due.
    pub available_at: Option<Micros>,
    /// What a report of failure said.
    pub reason: Option<String>,
}

impl Event {
    /// About a claim.
    #[must_use]
    pub fn of(kind: &'static str, claim: &Arc<Claim>) -> Self {
        Self { kind, job_id: claim.job_id.clone(), claim: Some(Arc::clone(claim)), available_at: None, reason: None }
    }

    /// About a job that another worker held.
    #[must_use]
    pub fn of_job(kind: &'static str, job_id: String) -> Self {
        Self { kind, job_id, claim: None, available_at: None, reason: None }
    }
}

/// What a pool has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Claims made.
    pub claimed: u64,
    /// Executors started.
    pub started: u64,
    /// Jobs that were completed.
    pub completed: u64,
    /// Jobs that failed for good.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs whose outcome is unknown.
    pub outcome_unknown: u64,
    /// Failures that are tried again.
    pub retried: u64,
    /// Jobs put off.
    pub snoozed: u64,
    /// Jobs handed back.
    pub released: u64,
    /// Reports that came after the claim had ended.
    pub stale: u64,
    /// Lost claims that were put back, whoever held them.
    pub recovered: u64,
    /// Lost claims with no recovery left.
    pub interrupted: u64,
}

impl Counts {
    /// Count what became of a report.
    pub(super) fn settlement(&mut self, settlement: &Settlement) {
        use crate::job::OutcomeKind;
        let count = match settlement {
            Settlement::Settled(OutcomeKind::Completed) => &mut self.completed,
            Settlement::Settled(OutcomeKind::Failed) => &mut self.failed,
            Settlement::Settled(OutcomeKind::Cancelled) => &mut self.cancelled,
            Settlement::Settled(OutcomeKind::OutcomeUnknown) => &mut self.outcome_unknown,
            Settlement::Settled(OutcomeKind::Interrupted) => &mut self.interrupted,
            Settlement::Retried { .. } => &mut self.retried,
            Settlement::Snoozed { .. } => &mut self.snoozed,
            Settlement::Released => &mut self.released,
            Settlement::Stale => &mut self.stale,
        };
        *count += 1;
    }
}
