//! The words of the engine: job, claim, report, settlement, record. Plain data, no behaviour.
//!
//! Times are whole microseconds ([`Micros`]): of the wall clock since 1970 (UTC) unless a field says otherwise.

use std::sync::Arc;

/// A point in time or a duration, in whole microseconds. It stays below 2^53 until the year 2255, so that it survives
/// hosts whose only number is a double.
pub type Micros = i64;

/// One second.
pub const SECOND: Micros = 1_000_000;

/// When a job may first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// At a wall time. One in the past means at once, ahead of what came later.
    At(Micros),
    /// After a delay, counted by the store's clock from the moment of the write.
    After(Micros),
}

/// How long a failed job waits: `min(cap, base · 2^(charged − 1))`, varied by up to `jitter` of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The wait after the first charged attempt.
    pub base: Micros,
    /// The longest wait.
    pub cap: Micros,
    /// From 0 (none) to 1: the wait is shortened by a random part of up to this share.
    pub jitter: f64,
}

impl Default for Backoff {
    /// The defaults of the pull API: one second, at most sixty, no jitter.
    fn default() -> Self {
        Self { base: SECOND, cap: 60 * SECOND, jitter: 0.0 }
    }
}

/// How often a job may be tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// Charged attempts. `None`: a reported failure is final.
    pub max_attempts: Option<u32>,
    /// Lost claims. `None`: one without `max_attempts`, and no bound of its own with it.
    pub max_recoveries: Option<u32>,
}

/// A job as it is ingested.
#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    /// The caller's identity for this work. A replay under it creates nothing.
    pub job_id: String,
    /// What workers subscribe to.
    pub queue: String,
    /// A stream inside the queue.
    pub lane: String,
    /// A higher one runs first.
    pub priority: i32,
    /// Canonical JSON.
    pub payload: String,
    /// How often it may be tried again.
    pub budgets: Budgets,
    /// The wait after a failure, where the job brings its own.
    pub backoff: Option<Backoff>,
    /// How long an executor may take.
    pub timeout: Option<Micros>,
    /// When it may first run.
    pub due: Due,
}

/// What the store answers to one ingested job.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// Stored by this call, and durable.
    Admitted,
    /// Already stored with the same content; nothing was created.
    Duplicate,
    /// The id is taken by other content; nothing was changed.
    Conflict {
        /// The fields that differ, as in `payload, priority`.
        difference: String,
    },
    /// The lane holds as many queued jobs as it may; nothing was stored.
    Refused {
        /// How many that is.
        limit: u32,
    },
}

/// How often a job was tried, and what of it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Claims made so far; the number of the latest one. Never goes down.
    pub attempts: u32,
    /// Claims whose holder gave the attempt back (release, snooze).
    pub given_back: u32,
    /// Claims that were lost and put back.
    pub recoveries: u32,
}

impl Counters {
    /// The attempts that count against `max_attempts`.
    #[must_use]
    pub fn charged(self) -> u32 {
        self.attempts.saturating_sub(self.given_back)
    }
}

/// Who may renew or settle a claim: the job's order number, and the token that the claim was made with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimKey {
    /// The order number that the store gave the job.
    pub number: i64,
    /// Made by the claiming side, the same for all jobs of one claim call.
    pub lease_token: Arc<str>,
}

/// How a caller names a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimName {
    /// By the order number, as a claim carries it: no look-up.
    Number(ClaimKey),
    /// By the job's id.
    JobId {
        /// The job's id.
        job_id: String,
        /// The token of the claim.
        lease_token: String,
    },
}

impl ClaimName {
    /// The token of the claim.
    #[must_use]
    pub fn lease_token(&self) -> &str {
        match self {
            Self::Number(key) => &key.lease_token,
            Self::JobId { lease_token, .. } => lease_token,
        }
    }
}

/// What a claim call asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Made by the caller, so that a driver whose reply was lost can look up what it claimed.
    pub lease_token: Arc<str>,
    /// Who claims, for the record.
    pub worker: String,
    /// The queues to claim from; `None` for all.
    pub queues: Option<Vec<String>>,
    /// How many jobs at most.
    pub limit: u32,
    /// How long each claim holds without renewal; `None` where a host's liveness probe stands for it instead.
    pub lease: Option<Micros>,
    /// Whether the caller wants to know when more is due, where it gets less than it asks for.
    pub look_ahead: bool,
}

/// One claimed job.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What to renew and settle it by.
    pub key: ClaimKey,
    /// The job's id.
    pub job_id: String,
    /// Its queue.
    pub queue: String,
    /// Its lane.
    pub lane: String,
    /// Its priority.
    pub priority: i32,
    /// Canonical JSON.
    pub payload: String,
    /// Its budgets.
    pub budgets: Budgets,
    /// How long the executor may take.
    pub timeout: Option<Micros>,
    /// When it was ingested.
    pub admitted_at: Micros,
    /// When it was claimed.
    pub claimed_at: Micros,
    /// The counters; `attempts` is the number of this claim.
    pub counters: Counters,
    /// What the last failed or lost attempt said.
    pub last_error: Option<String>,
}

/// What recovery did with lost claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Ids of jobs that were put back.
    pub recovered: Vec<String>,
    /// Ids of jobs that were settled `interrupted`.
    pub interrupted: Vec<String>,
}

/// The answer to a claim call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claimed {
    /// The claims, in the order of claiming.
    pub claims: Vec<Claim>,
    /// What the recovery in front of the claim did.
    pub recovery: Recovered,
    /// Where it was asked for, and fewer jobs were due than might have been: in how long the next job of these queues is due, or the next lease
    /// ends. `None` with nothing to come.
    pub next_in: Option<Micros>,
}

/// The answer to the renewal of one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The claim holds for another lease.
    Renewed {
        /// Set once the job's cancellation was asked for, with the reason that was given.
        cancel_requested: Option<String>,
    },
    /// The claim has ended.
    Stale,
}

/// What the holder of a claim reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The work is done.
    Completed {
        /// Canonical JSON.
        result: Option<String>,
    },
    /// The work failed.
    Failed {
        /// What happened.
        reason: String,
        /// Whether the budgets may grant another attempt.
        retry: bool,
        /// The wait before that attempt, instead of the back-off.
        retry_in: Option<Micros>,
        /// The back-off of this report, instead of the job's.
        backoff: Option<Backoff>,
    },
    /// The executor stopped because it was told to.
    Cancelled {
        /// Why, where the executor says so.
        reason: Option<String>,
    },
    /// The evidence cannot establish what happened.
    OutcomeUnknown {
        /// Canonical JSON.
        evidence: Option<String>,
    },
    /// Not now: run it later, the attempt given back.
    Snooze {
        /// How much later.
        delay: Micros,
    },
    /// Not by me: hand it back at once, the attempt given back.
    Release,
}

/// The terminal outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeKind {
    /// The work is done.
    Completed,
    /// The work failed, with no attempt left.
    Failed,
    /// The job was cancelled.
    Cancelled,
    /// The evidence could not establish what happened.
    OutcomeUnknown,
    /// The claim was lost and the budget used up: effects unknown.
    Interrupted,
}

impl OutcomeKind {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Completed, Self::Failed, Self::Cancelled, Self::OutcomeUnknown, Self::Interrupted];

    /// The word that is stored, and shown to Python.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Interrupted => "interrupted",
        }
    }

    /// The kind of a stored word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// What became of one settled claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// The job has its outcome.
    Settled(OutcomeKind),
    /// The job waits for another attempt.
    Retried {
        /// When it is due; `None` in the answer to a repeated report, once the job has moved on.
        available_at: Option<Micros>,
    },
    /// The job waits, the attempt given back.
    Snoozed {
        /// As for `Retried`.
        available_at: Option<Micros>,
    },
    /// The job is claimable again, the attempt given back.
    Released,
    /// The claim had ended before; nothing was changed.
    Stale,
}

impl Settlement {
    /// The word that is stored as `last_report`, and shown to Python.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Settled(kind) => kind.as_str(),
            Self::Retried { .. } => "retried",
            Self::Snoozed { .. } => "snoozed",
            Self::Released => "released",
            Self::Stale => "stale",
        }
    }
}

/// Where a job is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Waiting to be claimed.
    Queued {
        /// When it may run.
        available_at: Micros,
    },
    /// Claimed.
    Running {
        /// By whom.
        worker: String,
        /// When it was claimed.
        claimed_at: Micros,
        /// When the claim expires unless it is renewed, as wall time; `None` under a liveness probe.
        lease_until: Option<Micros>,
        /// When its cancellation was asked for.
        cancel_requested_at: Option<Micros>,
        /// The reason that was given with that.
        cancel_reason: Option<String>,
    },
    /// Done with.
    Settled {
        /// How.
        outcome: OutcomeKind,
        /// When.
        settled_at: Micros,
        /// By whom; `None` where no claim was involved.
        worker: Option<String>,
    },
}

/// Everything that is known of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// Its order number.
    pub number: i64,
    /// Its id.
    pub job_id: String,
    /// Its queue.
    pub queue: String,
    /// Its lane.
    pub lane: String,
    /// Its priority.
    pub priority: i32,
    /// Canonical JSON.
    pub payload: String,
    /// Its budgets.
    pub budgets: Budgets,
    /// When it was ingested.
    pub admitted_at: Micros,
    /// Its counters.
    pub counters: Counters,
    /// Where it is.
    pub state: State,
    /// Canonical JSON, of a completed job that reported one.
    pub result: Option<String>,
    /// The latest error or reason: of the outcome, or of the last attempt of a job that is to run again.
    pub error: Option<String>,
    /// Canonical JSON, of an `outcome_unknown` job that reported some.
    pub evidence: Option<String>,
}
