//! The handle of an open store: one method per operation, each of which checks its arguments, hands them over, and returns
//! a completion.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::clock::FakeClock;
use super::completion::Completion;
use super::convert;
use super::error::{Failure, raise};
use super::rows::{Admission, ClaimedJob, JobRecord};
use super::token::CancellationToken;
use crate::admission;
use crate::clock::{Clock, SystemClock};
use crate::engine::Engine as CoreEngine;
use crate::engine::lease::Keep;
use crate::error::Error;
use crate::job::{ClaimName, ClaimRequest, Claimed, Renewal, Settlement};
use crate::options::{NetworkFiles, SqliteOptions, Synchronous};
use crate::store::sqlite::SqliteStore;

/// An open store.
#[pyclass(frozen, module = "bandog._core")]
pub(super) struct Engine {
    engine: Arc<CoreEngine>,
    payload_limit: usize,
}

impl Engine {
    /// The engine, unless this is a forked child of the process that opened it.
    fn engine(&self, py: Python<'_>) -> PyResult<&Arc<CoreEngine>> {
        self.engine.check_process().map_err(|error| raise(py, error, None))?;
        Ok(&self.engine)
    }
}

fn refused(py: Python<'_>) -> impl Fn(Failure) -> PyErr {
    move |failure| failure.raise(py, None)
}

#[pymethods]
impl Engine {
    /// Open an SQLite file.
    #[staticmethod]
    #[pyo3(signature = (path, *, synchronous, busy_timeout, allow_network_filesystem, payload_limit, clock=None))]
    fn open_sqlite(
        py: Python<'_>,
        path: PathBuf,
        synchronous: &Bound<'_, PyAny>,
        busy_timeout: &Bound<'_, PyAny>,
        allow_network_filesystem: &Bound<'_, PyAny>,
        payload_limit: &Bound<'_, PyAny>,
        clock: Option<&Bound<'_, FakeClock>>,
    ) -> PyResult<Self> {
        let synchronous = match convert::text(synchronous, "synchronous").map_err(refused(py))?.as_str() {
            "full" => Synchronous::Full,
            "normal" => Synchronous::Normal,
            other => {
                let problem = format!("must be \"full\" or \"normal\", not {other:?}");
                return Err(raise(py, Error::Invalid { field: "synchronous", problem }, None));
            }
        };
        let busy_timeout = convert::duration(busy_timeout, "busy_timeout").map_err(refused(py))?;
        admission::duration("busy_timeout", busy_timeout).map_err(|error| raise(py, error, None))?;
        let allow_network_filesystem =
            convert::flag(allow_network_filesystem, "allow_network_filesystem").map_err(refused(py))?;
        let payload_limit: u32 =
            convert::integer(payload_limit, "payload_limit", "from 1 to 4294967295").map_err(refused(py))?;
        let payload_limit = admission::payload_limit(payload_limit).map_err(|error| raise(py, error, None))?;
        let clock: Arc<dyn Clock> = match clock {
            Some(clock) => clock.get().clock(),
            None => Arc::new(SystemClock),
        };
        let options = SqliteOptions {
            synchronous,
            busy_timeout: Duration::from_micros(busy_timeout.unsigned_abs()),
            network_files: if allow_network_filesystem { NetworkFiles::Allow } else { NetworkFiles::Refuse },
            clock,
        };
        let store = py.detach(|| SqliteStore::open(&path, &options)).map_err(|error| raise(py, error, None))?;
        Ok(Self { engine: Arc::new(CoreEngine::new(Arc::new(store))), payload_limit })
    }

    /// Ingest jobs: a list of `Admission`.
    fn ingest(&self, py: Python<'_>, jobs: &Bound<'_, PyList>) -> PyResult<Completion> {
        let engine = self.engine(py)?;
        let mut new = Vec::with_capacity(jobs.len());
        for job in jobs.iter() {
            let job = convert::new_job(&job, self.payload_limit);
            new.push(job.map_err(|(failure, job_id)| failure.raise(py, job_id.as_deref()))?);
        }
        Ok(Completion::value(engine.store().ingest(new), |py, answers| {
            let admissions =
                answers.into_iter().map(|answer| Admission::new(py, answer)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, admissions)?.into_py_any(py)
        }))
    }

    /// Claim jobs: `(claims, tokens, recovered, interrupted)`. With `keep`, each claim is renewed until it is let go, and
    /// `tokens` has its cancellation token, or `None` for a claim that came too late to start and is to be released.
    #[pyo3(signature = (*, worker, queues, limit, lease, keep))]
    fn claim(
        &self,
        py: Python<'_>,
        worker: &Bound<'_, PyAny>,
        queues: Option<Vec<Bound<'_, PyAny>>>,
        limit: &Bound<'_, PyAny>,
        lease: &Bound<'_, PyAny>,
        keep: bool,
    ) -> PyResult<Completion> {
        let engine = Arc::clone(self.engine(py)?);
        let request = || {
            let queues = queues
                .as_ref()
                .map(|queues| queues.iter().map(|queue| convert::text(queue, "queues")).collect::<Result<Vec<_>, _>>());
            let request = ClaimRequest {
                lease_token: uuid::Uuid::new_v4().simple().to_string(),
                worker: convert::text(worker, "worker")?,
                queues: queues.transpose()?,
                limit: convert::integer(limit, "limit", "from 1 to 4294967295")?,
                lease: convert::duration(lease, "lease")?,
            };
            admission::claim(&request)?;
            Ok(request)
        };
        let request = request().map_err(refused(py))?;
        let lease = request.lease;
        let asked_at = engine.store().clock().now().uptime;
        let completion = engine.store().claim(request);
        let undo = Arc::downgrade(&engine);
        let convert = move |py: Python<'_>, claimed| {
            let Claimed { claims, recovery } = claimed;
            let mut jobs = Vec::with_capacity(claims.len());
            let mut tokens = Vec::with_capacity(if keep { claims.len() } else { 0 });
            for claim in claims {
                if keep {
                    let keep = Keep { key: claim.key.clone(), lease, timeout: claim.timeout, asked_at };
                    let token = engine.keep_fresh(keep).map_err(|error| raise(py, error, None))?;
                    tokens.push(token.map(CancellationToken::new));
                }
                jobs.push(ClaimedJob::new(claim));
            }
            (
                PyList::new(py, jobs)?,
                PyList::new(py, tokens)?,
                PyTuple::new(py, recovery.recovered)?,
                PyTuple::new(py, recovery.interrupted)?,
            )
                .into_py_any(py)
        };
        // Ctrl-C while it waited: claims that nobody holds would keep their jobs from everybody until the lease has ended.
        let undo = move |claimed: Claimed| {
            if let Some(engine) = undo.upgrade() {
                engine.release(claimed.claims);
            }
        };
        Ok(Completion::undoable(completion, convert, undo))
    }

    /// Stop renewing a kept claim.
    fn let_go(&self, py: Python<'_>, claim: &Bound<'_, ClaimedJob>) -> PyResult<()> {
        self.engine(py)?.keeper().let_go(claim.get().key());
        Ok(())
    }

    /// How many claims are kept.
    fn held(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.engine(py)?.keeper().held())
    }

    /// Renew claims: per claim the reason of a cancellation that was asked for, `None` for none, or the word `stale` or
    /// `not_found` in second place.
    fn renew(&self, py: Python<'_>, claims: &Bound<'_, PyList>, lease: &Bound<'_, PyAny>) -> PyResult<Completion> {
        let engine = self.engine(py)?;
        let names = names(claims)?;
        let lease = convert::duration(lease, "lease").map_err(refused(py))?;
        admission::lease(lease).map_err(|error| raise(py, error, None))?;
        Ok(Completion::value(engine.store().renew(names, lease), |py, renewals| {
            let answers = renewals.into_iter().map(|renewal| match renewal {
                Ok(Renewal::Renewed { cancel_requested }) => ("renewed", cancel_requested),
                Ok(Renewal::Stale) => ("stale", None),
                Err(_) => ("not_found", None),
            });
            PyList::new(py, answers.collect::<Vec<_>>())?.into_py_any(py)
        }))
    }

    /// Settle claims: per pair of claim and outcome a word, and the time at which a job that was put back is due.
    fn settle(&self, py: Python<'_>, reports: &Bound<'_, PyList>) -> PyResult<Completion> {
        let engine = self.engine(py)?;
        let mut converted = Vec::with_capacity(reports.len());
        for pair in reports.iter() {
            let (claim, outcome) = convert::pair(&pair, "reports").map_err(refused(py))?;
            let claim = convert::claim_name(&claim).map_err(refused(py))?;
            let report = convert::report(&outcome, self.payload_limit).map_err(refused(py))?;
            converted.push((claim, report));
        }
        Ok(Completion::value(engine.store().settle(converted), |py, settlements| {
            let mut answers = Vec::with_capacity(settlements.len());
            for settlement in settlements {
                let (word, available_at) = match &settlement {
                    Ok(settlement) => (
                        settlement.as_str(),
                        match settlement {
                            Settlement::Retried { available_at } | Settlement::Snoozed { available_at } => {
                                *available_at
                            }
                            _ => None,
                        },
                    ),
                    Err(_) => ("not_found", None),
                };
                let available_at = available_at.map(|at| convert::datetime(py, at)).transpose()?;
                answers.push((word, available_at));
            }
            PyList::new(py, answers)?.into_py_any(py)
        }))
    }

    /// Recover lost claims: `(recovered, interrupted)`.
    fn recover(&self, py: Python<'_>, limit: &Bound<'_, PyAny>) -> PyResult<Completion> {
        let limit = convert::integer(limit, "limit", "from 1 to 4294967295").map_err(refused(py))?;
        admission::limit(limit).map_err(|error| raise(py, error, None))?;
        Ok(Completion::value(self.engine(py)?.store().recover(limit), |py, recovery| {
            (PyTuple::new(py, recovery.recovered)?, PyTuple::new(py, recovery.interrupted)?).into_py_any(py)
        }))
    }

    /// Read jobs: a list of `JobRecord` or `None`.
    fn read(&self, py: Python<'_>, job_ids: Vec<Bound<'_, PyAny>>) -> PyResult<Completion> {
        let ids = job_ids.iter().map(|id| convert::text(id, "job_id")).collect::<Result<Vec<_>, _>>();
        let completion = self.engine(py)?.store().read(ids.map_err(refused(py))?);
        Ok(Completion::value(completion, |py, records| {
            PyList::new(py, records.into_iter().map(|record| record.map(JobRecord::new)))?.into_py_any(py)
        }))
    }

    fn has_pending_work(&self, py: Python<'_>) -> PyResult<Completion> {
        Ok(Completion::value(self.engine(py)?.store().has_pending_work(), |py, pending| pending.into_py_any(py)))
    }

    fn next_wake(&self, py: Python<'_>) -> PyResult<Completion> {
        Ok(Completion::value(self.engine(py)?.store().next_wake(), |py, next| {
            next.map(|next| convert::datetime(py, next)).transpose()?.into_py_any(py)
        }))
    }

    /// Stop renewing, finish what was asked for, and close. In a forked child it does nothing.
    fn close(&self, py: Python<'_>) {
        if self.engine.check_process().is_ok() {
            py.detach(|| self.engine.close());
        }
    }
}

fn names(claims: &Bound<'_, PyList>) -> PyResult<Vec<ClaimName>> {
    let py = claims.py();
    claims.iter().map(|claim| convert::claim_name(&claim).map_err(refused(py))).collect()
}
