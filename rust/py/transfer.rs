//! What a worker and its child processes hand to each other: a claimed job one way, a report the other, both picklable. The
//! text of a payload or result passes as text: nothing in it is imported or evaluated.

use std::sync::Arc;

use pyo3::prelude::*;

use super::convert;
use super::rows::ClaimedJob;
use super::token::CancellationToken;
use crate::clock::SystemClock;
use crate::engine::cancellation::{AbortReason, CancellationToken as EngineToken};
use crate::job::{Backoff, Budgets, Claim, ClaimKey, Counters, Micros, Report};

/// A report that was read and checked where its objects live.
#[pyclass(frozen, module = "bandog._core")]
pub(super) struct FrozenReport(Report);

type BackoffParts = (Micros, Micros, f64);
type ReportParts = (&'static str, Option<String>, bool, Option<Micros>, Option<BackoffParts>);

impl FrozenReport {
    pub(super) fn report(&self) -> Report {
        self.0.clone()
    }

    fn parts(&self) -> ReportParts {
        match self.0.clone() {
            Report::Completed { result } => ("completed", result, false, None, None),
            Report::Failed { reason, retry, retry_in, backoff } => {
                let backoff = backoff.map(|backoff| (backoff.base, backoff.cap, backoff.jitter));
                ("failed", Some(reason), retry, retry_in, backoff)
            }
            Report::Cancelled { reason } => ("cancelled", reason, false, None, None),
            Report::OutcomeUnknown { evidence } => ("outcome_unknown", evidence, false, None, None),
            Report::Snooze { delay } => ("snooze", None, false, Some(delay), None),
            Report::Release => ("release", None, false, None, None),
        }
    }
}

#[pymethods]
impl FrozenReport {
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, ReportParts)> {
        Ok((py.import("bandog._core")?.getattr("thaw_report")?, self.parts()))
    }
}

/// Read and check a report.
#[pyfunction]
pub(super) fn freeze_report(report: &Bound<'_, PyAny>, limit: usize) -> PyResult<FrozenReport> {
    convert::report(report, limit).map(FrozenReport).map_err(|failure| failure.raise(report.py(), None))
}

/// The inverse of pickling a `FrozenReport`.
#[pyfunction]
pub(super) fn thaw_report(
    kind: &str,
    text: Option<String>,
    retry: bool,
    wait: Option<Micros>,
    backoff: Option<BackoffParts>,
) -> PyResult<FrozenReport> {
    Ok(FrozenReport(match kind {
        "completed" => Report::Completed { result: text },
        "failed" => Report::Failed {
            reason: text.unwrap_or_default(),
            retry,
            retry_in: wait,
            backoff: backoff.map(|(base, cap, jitter)| Backoff { base, cap, jitter }),
        },
        "cancelled" => Report::Cancelled { reason: text },
        "outcome_unknown" => Report::OutcomeUnknown { evidence: text },
        "snooze" => Report::Snooze { delay: wait.unwrap_or_default() },
        "release" => Report::Release,
        _ => return Err(super::misuse("no report has this kind")),
    }))
}

type Names = (String, String, String, String);
type Numbers = (i64, i32, u32, u32, u32, Option<u32>, Option<u32>);
type Times = (Option<Micros>, Micros, Micros);
type ClaimParts = (Names, String, Numbers, Times, Option<String>);

/// A claimed job in parts that can be pickled.
pub(super) fn claim_parts(claim: &Claim) -> ClaimParts {
    let Claim { key, job_id, queue, lane, payload, counters, budgets, last_error, .. } = claim.clone();
    let Counters { attempts, given_back, recoveries } = counters;
    let numbers =
        (key.number, claim.priority, attempts, given_back, recoveries, budgets.max_attempts, budgets.max_recoveries);
    let times = (claim.timeout, claim.admitted_at, claim.claimed_at);
    ((key.lease_token.to_string(), job_id, queue, lane), payload, numbers, times, last_error)
}

/// The inverse of pickling a `ClaimedJob`.
#[pyfunction]
pub(super) fn thaw_claim(
    names: Names,
    payload: String,
    numbers: Numbers,
    times: Times,
    last_error: Option<String>,
) -> ClaimedJob {
    let (lease_token, job_id, queue, lane) = names;
    let (number, priority, attempts, given_back, recoveries, max_attempts, max_recoveries) = numbers;
    let (timeout, admitted_at, claimed_at) = times;
    ClaimedJob::new(Arc::new(Claim {
        key: ClaimKey { number, lease_token: lease_token.into() },
        job_id,
        queue,
        lane,
        priority,
        payload,
        budgets: Budgets { max_attempts, max_recoveries },
        timeout,
        admitted_at,
        claimed_at,
        counters: Counters { attempts, given_back, recoveries },
        last_error,
    }))
}

/// A token that aborts only when it is told to: of a job in a child process, whose parent keeps the lease.
#[pyfunction]
pub(super) fn remote_token() -> CancellationToken {
    CancellationToken::new(EngineToken::new(Arc::new(SystemClock), Micros::MAX))
}

/// Abort a token, as its parent's was.
#[pyfunction]
pub(super) fn abort_token(token: &Bound<'_, CancellationToken>, reason: &str, detail: Option<String>) -> PyResult<()> {
    let reason = match reason {
        "cancel_requested" => AbortReason::CancelRequested(detail.unwrap_or_default()),
        "lease_lost" => AbortReason::LeaseLost,
        "shutdown" => AbortReason::Shutdown,
        "timeout" => AbortReason::Timeout,
        _ => return Err(super::misuse("no token has this reason")),
    };
    let py = token.py();
    let token = token.get().token(py)?;
    py.detach(|| token.abort(reason));
    Ok(())
}
