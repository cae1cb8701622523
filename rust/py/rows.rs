//! What the store answers, as Python sees it: frozen, and converted only when looked at. A batch of a thousand claims costs
//! a thousand small objects, not a thousand parsed payloads.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use pyo3::{IntoPyObjectExt, intern};

use super::{convert, transfer};
use crate::job::{Claim, ClaimKey, JobRecord as EngineRecord, Micros, OutcomeKind, State};
use crate::store::Ingested;

/// Canonical JSON as a Python value.
fn loads(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let loads = LOADS.get_or_try_init(py, || Ok::<_, PyErr>(py.import("json")?.getattr("loads")?.unbind()))?;
    loads.call1(py, (text,))
}

fn optional_datetime(py: Python<'_>, micros: Option<Micros>) -> PyResult<Option<Bound<'_, PyAny>>> {
    micros.map(|micros| convert::datetime(py, micros)).transpose()
}

#[allow(clippy::cast_precision_loss, reason = "durations of jobs are far below 2^53 microseconds")]
fn seconds(micros: Micros) -> f64 {
    micros as f64 / 1e6
}

/// One claimed job: what an executor is given.
#[pyclass(frozen, module = "bandog")]
pub(super) struct ClaimedJob {
    claim: Arc<Claim>,
    payload: PyOnceLock<Py<PyAny>>,
}

impl ClaimedJob {
    pub(super) fn new(claim: Arc<Claim>) -> Self {
        Self { claim, payload: PyOnceLock::new() }
    }

    pub(super) fn key(&self) -> &ClaimKey {
        &self.claim.key
    }
}

#[pymethods]
impl ClaimedJob {
    /// It may be handed to another process, as a worker does with its own.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let parts = transfer::claim_parts(&self.claim).into_pyobject(py)?;
        Ok((py.import("bandog._core")?.getattr("thaw_claim")?, parts))
    }

    #[getter]
    fn job_id(&self) -> &str {
        &self.claim.job_id
    }

    #[getter]
    fn queue(&self) -> &str {
        &self.claim.queue
    }

    #[getter]
    fn lane(&self) -> &str {
        &self.claim.lane
    }

    #[getter]
    fn priority(&self) -> i32 {
        self.claim.priority
    }

    #[getter]
    fn payload(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let payload = self.payload.get_or_try_init(py, || loads(py, &self.claim.payload))?;
        Ok(payload.clone_ref(py))
    }

    #[getter]
    fn payload_json(&self) -> &str {
        &self.claim.payload
    }

    #[getter]
    fn attempt(&self) -> u32 {
        self.claim.counters.attempts
    }

    #[getter]
    fn charged(&self) -> u32 {
        self.claim.counters.charged()
    }

    #[getter]
    fn recoveries(&self) -> u32 {
        self.claim.counters.recoveries
    }

    #[getter]
    fn max_attempts(&self) -> Option<u32> {
        self.claim.budgets.max_attempts
    }

    #[getter]
    fn max_recoveries(&self) -> Option<u32> {
        self.claim.budgets.max_recoveries
    }

    #[getter]
    fn timeout(&self) -> Option<f64> {
        self.claim.timeout.map(seconds)
    }

    #[getter]
    fn lease_token(&self) -> &str {
        &self.claim.key.lease_token
    }

    #[getter]
    fn last_error(&self) -> Option<&str> {
        self.claim.last_error.as_deref()
    }

    #[getter]
    fn admitted_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::datetime(py, self.claim.admitted_at)
    }

    #[getter]
    fn claimed_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::datetime(py, self.claim.claimed_at)
    }

    /// The token is left out: whoever has it may settle the job.
    fn __repr__(&self) -> String {
        let claim = &self.claim;
        format!("<ClaimedJob {:?} queue={:?} attempt={}>", claim.job_id, claim.queue, claim.counters.attempts)
    }
}

/// Everything that is known of a job.
#[pyclass(frozen, module = "bandog")]
pub(super) struct JobRecord(EngineRecord);

impl JobRecord {
    pub(super) fn new(record: EngineRecord) -> Self {
        Self(record)
    }
}

#[pymethods]
impl JobRecord {
    #[getter]
    fn job_id(&self) -> &str {
        &self.0.job_id
    }

    #[getter]
    fn queue(&self) -> &str {
        &self.0.queue
    }

    #[getter]
    fn lane(&self) -> &str {
        &self.0.lane
    }

    #[getter]
    fn priority(&self) -> i32 {
        self.0.priority
    }

    #[getter]
    fn payload(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        loads(py, &self.0.payload)
    }

    #[getter]
    fn payload_json(&self) -> &str {
        &self.0.payload
    }

    #[getter]
    fn max_attempts(&self) -> Option<u32> {
        self.0.budgets.max_attempts
    }

    #[getter]
    fn max_recoveries(&self) -> Option<u32> {
        self.0.budgets.max_recoveries
    }

    #[getter]
    fn admitted_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::datetime(py, self.0.admitted_at)
    }

    #[getter]
    fn attempts(&self) -> u32 {
        self.0.counters.attempts
    }

    #[getter]
    fn given_back(&self) -> u32 {
        self.0.counters.given_back
    }

    #[getter]
    fn charged(&self) -> u32 {
        self.0.counters.charged()
    }

    #[getter]
    fn recoveries(&self) -> u32 {
        self.0.counters.recoveries
    }

    #[getter]
    fn state(&self) -> &'static str {
        match self.0.state {
            State::Queued { .. } => "queued",
            State::Running { .. } => "running",
            State::Settled { .. } => "settled",
        }
    }

    #[getter]
    fn available_at<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        optional_datetime(
            py,
            match self.0.state {
                State::Queued { available_at } => Some(available_at),
                _ => None,
            },
        )
    }

    #[getter]
    fn worker(&self) -> Option<&str> {
        match &self.0.state {
            State::Running { worker, .. } => Some(worker),
            State::Settled { worker, .. } => worker.as_deref(),
            State::Queued { .. } => None,
        }
    }

    #[getter]
    fn claimed_at<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        optional_datetime(
            py,
            match self.0.state {
                State::Running { claimed_at, .. } => Some(claimed_at),
                _ => None,
            },
        )
    }

    #[getter]
    fn lease_until<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        optional_datetime(
            py,
            match self.0.state {
                State::Running { lease_until, .. } => lease_until,
                _ => None,
            },
        )
    }

    #[getter]
    fn cancel_requested_at<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        optional_datetime(
            py,
            match self.0.state {
                State::Running { cancel_requested_at, .. } => cancel_requested_at,
                _ => None,
            },
        )
    }

    #[getter]
    fn cancel_reason(&self) -> Option<&str> {
        match &self.0.state {
            State::Running { cancel_reason, .. } => cancel_reason.as_deref(),
            _ => None,
        }
    }

    #[getter]
    fn settled_at<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        optional_datetime(
            py,
            match self.0.state {
                State::Settled { settled_at, .. } => Some(settled_at),
                _ => None,
            },
        )
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// One of the outcome classes of `bandog/outcome.py`; `None` until the job is settled.
    #[getter]
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let State::Settled { outcome, .. } = self.0.state else { return Ok(None) };
        let json = |text: &Option<String>| text.as_deref().map(|text| loads(py, text)).transpose();
        let (class, argument) = match outcome {
            OutcomeKind::Completed => ("Completed", json(&self.0.result)?),
            OutcomeKind::OutcomeUnknown => ("OutcomeUnknown", json(&self.0.evidence)?),
            OutcomeKind::Failed => ("Failed", Some(self.0.error.as_deref().unwrap_or_default().into_py_any(py)?)),
            OutcomeKind::Interrupted => {
                ("Interrupted", Some(self.0.error.as_deref().unwrap_or_default().into_py_any(py)?))
            }
            OutcomeKind::Cancelled => {
                ("Cancelled", self.0.error.as_deref().map(|error| error.into_py_any(py)).transpose()?)
            }
        };
        py.import(intern!(py, "bandog.outcome"))?.getattr(class)?.call1((argument,)).map(Some)
    }

    fn __repr__(&self) -> String {
        let outcome = match self.0.state {
            State::Settled { outcome, .. } => format!(" outcome={}", outcome.as_str()),
            _ => String::new(),
        };
        format!("<JobRecord {:?} state={}{outcome} attempts={}>", self.0.job_id, self.state(), self.0.counters.attempts)
    }
}

/// The answer to one ingested job.
#[pyclass(frozen, module = "bandog")]
pub(super) struct Admission {
    kind: &'static str,
    difference: Option<String>,
    limit: Option<u32>,
    job_id: String,
    record: Option<EngineRecord>,
    job: PyOnceLock<Py<JobRecord>>,
}

impl Admission {
    pub(super) fn new(ingested: Ingested) -> Self {
        use crate::job::Admission as Kind;
        let (kind, difference, limit) = match ingested.admission {
            Kind::Admitted => ("admitted", None, None),
            Kind::Duplicate => ("duplicate", None, None),
            Kind::Conflict { difference } => ("conflict", Some(difference), None),
            Kind::Refused { limit } => ("refused", None, Some(limit)),
        };
        let Ingested { job_id, record, .. } = ingested;
        Self { kind, difference, limit, job_id, record, job: PyOnceLock::new() }
    }
}

#[pymethods]
impl Admission {
    #[getter]
    fn kind(&self) -> &'static str {
        self.kind
    }

    #[getter]
    fn job(&self, py: Python<'_>) -> PyResult<Option<Py<JobRecord>>> {
        let Some(record) = &self.record else { return Ok(None) };
        let job = self.job.get_or_try_init(py, || Py::new(py, JobRecord::new(record.clone())))?;
        Ok(Some(job.clone_ref(py)))
    }

    #[getter]
    fn job_id(&self) -> &str {
        &self.job_id
    }

    /// How many jobs the lane may hold, where it was full.
    #[getter]
    fn limit(&self) -> Option<u32> {
        self.limit
    }

    #[getter]
    fn difference(&self) -> Option<&str> {
        self.difference.as_deref()
    }

    fn __repr__(&self) -> String {
        format!("<Admission {} {:?}>", self.kind, self.job_id)
    }
}
