//! The handle of an open store: one method per operation, each of which checks its arguments, hands them over, and returns
//! a completion. One file, because `PyO3` takes the methods of a class in one block.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::attach::attach;
use super::clock::FakeClock;
use super::completion::Completion;
use super::convert;
use super::error::{Failure, raise};
use super::pool::{Pool, Settings};
#[cfg(feature = "postgres")]
use super::postgres;
use super::rows::{Admission, ClaimedJob, JobRecord};
use super::runtime_lock::RuntimeLock;
use super::token::CancellationToken;
use crate::admission;
use crate::clock::{Clock, SystemClock};
use crate::engine::Engine as CoreEngine;
use crate::engine::lease::Keep;
use crate::engine::wake::WakeCallback;
use crate::error::Error;
use crate::job::{ClaimKey, ClaimName, ClaimRequest, Claimed, Renewal, Settlement};
use crate::management::{Cancellation, JobsRequest, Page, PurgeRequest, Requeue};
use crate::options::{NetworkFiles, SqliteOptions, Synchronous};
use crate::store::Runtime;
#[cfg(feature = "postgres")]
use crate::store::postgres::PostgresStore;
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

    /// Open a schema of a PostgreSQL database.
    #[cfg(feature = "postgres")]
    #[staticmethod]
    #[pyo3(signature = (url, *, schema, busy_timeout, payload_limit, clock=None))]
    fn open_postgres(
        py: Python<'_>,
        url: &Bound<'_, PyAny>,
        schema: &Bound<'_, PyAny>,
        busy_timeout: &Bound<'_, PyAny>,
        payload_limit: &Bound<'_, PyAny>,
        clock: Option<&Bound<'_, FakeClock>>,
    ) -> PyResult<(Self, String)> {
        let payload_limit: u32 =
            convert::integer(payload_limit, "payload_limit", "from 1 to 4294967295").map_err(refused(py))?;
        let payload_limit = admission::payload_limit(payload_limit).map_err(|error| raise(py, error, None))?;
        let url = convert::text(url, "url").map_err(refused(py))?;
        let options = postgres::options(schema, busy_timeout, clock).map_err(refused(py))?;
        let store = py.detach(|| PostgresStore::open(&url, options)).map_err(|error| raise(py, error, None))?;
        let name = store.target().to_owned();
        Ok((Self { engine: Arc::new(CoreEngine::new(Arc::new(store))), payload_limit }, name))
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
            PyList::new(py, answers.into_iter().map(Admission::new).collect::<Vec<_>>())?.into_py_any(py)
        }))
    }

    /// Claim jobs: `(claims, tokens, recovered, interrupted)`. Without `lease` a liveness probe stands for it. With `keep`, each claim is renewed until it is let go, and
    /// `tokens` has its cancellation token, or `None` for a claim that came too late to start and is to be released.
    #[pyo3(signature = (*, worker, queues, limit, lease, keep))]
    fn claim(
        &self,
        py: Python<'_>,
        worker: &Bound<'_, PyAny>,
        queues: Option<Vec<Bound<'_, PyAny>>>,
        limit: &Bound<'_, PyAny>,
        lease: Option<&Bound<'_, PyAny>>,
        keep: bool,
    ) -> PyResult<Completion> {
        let engine = Arc::clone(self.engine(py)?);
        let request = || {
            let queues = queues
                .as_ref()
                .map(|queues| queues.iter().map(|queue| convert::text(queue, "queues")).collect::<Result<Vec<_>, _>>());
            let request = ClaimRequest {
                lease_token: uuid::Uuid::new_v4().simple().to_string().into(),
                worker: convert::text(worker, "worker")?,
                queues: queues.transpose()?,
                limit: convert::integer(limit, "limit", "from 1 to 4294967295")?,
                lease: lease.map(|lease| convert::duration(lease, "lease")).transpose()?,
                look_ahead: false,
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
            let Claimed { claims, recovery, .. } = claimed;
            let mut jobs = Vec::with_capacity(claims.len());
            let mut tokens = Vec::with_capacity(if keep { claims.len() } else { 0 });
            for claim in claims {
                if keep {
                    let keep = Keep { key: claim.key.clone(), lease, timeout: claim.timeout, asked_at };
                    let token = engine.keep_fresh(keep).map_err(|error| raise(py, error, None))?;
                    tokens.push(token.map(CancellationToken::new));
                }
                jobs.push(ClaimedJob::new(Arc::new(claim)));
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

    /// The most bytes of a payload, result or evidence.
    #[getter]
    fn payload_limit(&self) -> usize {
        self.payload_limit
    }

    /// Start a pool, from an object with its settings as attributes (see `bandog/_settings.py`).
    fn start_pool(&self, py: Python<'_>, settings: Settings<'_>) -> PyResult<Pool> {
        Pool::start(py, self.engine(py)?, settings, self.payload_limit)
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

    /// Settle claims: per pair of claim and outcome a word, and the time at which a job that was put back is due. The words
    /// are those of a settlement, `not_found`, and `busy` for a claim that stayed locked while others were settled.
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
                    Err(Error::StoreBusy { .. }) => ("busy", None),
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
        let limit = convert::limit(limit, "limit").map_err(refused(py))?;
        Ok(Completion::value(self.engine(py)?.store().recover(limit), |py, recovery| {
            (PyTuple::new(py, recovery.recovered)?, PyTuple::new(py, recovery.interrupted)?).into_py_any(py)
        }))
    }

    /// Cancel jobs, given as pairs of id and reason: per job a word, and the outcome of one that was settled before.
    fn cancel(&self, py: Python<'_>, jobs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>) -> PyResult<Completion> {
        let engine = Arc::clone(self.engine(py)?);
        let named = jobs
            .iter()
            .map(|(job_id, reason)| Ok((convert::text(job_id, "job_id")?, convert::reason(reason, "reason")?)))
            .collect::<Result<Vec<_>, Failure>>()
            .map_err(refused(py))?;
        let completion = engine.store().cancel(named);
        Ok(Completion::value(completion, move |py, answers| {
            let mut words = Vec::with_capacity(answers.len());
            for answer in answers {
                words.push(match answer {
                    Ok(Cancellation::Cancelled) => ("cancelled", None),
                    Ok(Cancellation::Requested { key, reason }) => {
                        engine.keeper().cancel_requested(&key, &reason);
                        ("requested", None)
                    }
                    Ok(Cancellation::Settled(kind)) => ("settled", Some(kind.as_str())),
                    Err(_) => ("not_found", None),
                });
            }
            PyList::new(py, words)?.into_py_any(py)
        }))
    }

    /// Fail queued jobs of a lane: how many were, and how many are left.
    fn fail_lane(
        &self,
        py: Python<'_>,
        queue: &Bound<'_, PyAny>,
        lane: &Bound<'_, PyAny>,
        reason: &Bound<'_, PyAny>,
        limit: &Bound<'_, PyAny>,
    ) -> PyResult<Completion> {
        let (queue, lane) = lane_names(queue, lane).map_err(refused(py))?;
        let reason = convert::reason(reason, "reason").map_err(refused(py))?;
        let limit = convert::limit(limit, "limit").map_err(refused(py))?;
        Ok(Completion::value(self.engine(py)?.store().fail_lane(queue, lane, reason, limit), |py, answer| {
            (answer.failed, answer.left).into_py_any(py)
        }))
    }

    /// Bound a lane; `None` for no bound.
    fn set_lane_limit(
        &self,
        py: Python<'_>,
        queue: &Bound<'_, PyAny>,
        lane: &Bound<'_, PyAny>,
        most: &Bound<'_, PyAny>,
    ) -> PyResult<Completion> {
        let (queue, lane) = lane_names(queue, lane).map_err(refused(py))?;
        let most = convert::count(most, "limit").map_err(refused(py))?;
        Ok(Completion::value(self.engine(py)?.store().set_lane_limit(queue, lane, most), |py, ()| Ok(py.None())))
    }

    /// Forget settled jobs: how many.
    fn purge(
        &self,
        py: Python<'_>,
        older_than: &Bound<'_, PyAny>,
        outcomes: Vec<Bound<'_, PyAny>>,
        limit: &Bound<'_, PyAny>,
    ) -> PyResult<Completion> {
        let request = || {
            let older_than = convert::duration(older_than, "older_than")?;
            admission::duration("older_than", older_than)?;
            let outcomes: Vec<_> =
                outcomes.iter().map(|kind| convert::outcome_kind(kind, "outcomes")).collect::<Result<_, _>>()?;
            admission::outcomes(&outcomes)?;
            Ok(PurgeRequest { older_than, outcomes, limit: convert::limit(limit, "limit")? })
        };
        let request = request().map_err(refused(py))?;
        Ok(Completion::value(self.engine(py)?.store().purge(request), |py, purged| purged.into_py_any(py)))
    }

    /// Requeue settled jobs: per job a word, and the outcome of one that is not to be requeued.
    fn requeue(
        &self,
        py: Python<'_>,
        job_ids: Vec<Bound<'_, PyAny>>,
        force: &Bound<'_, PyAny>,
    ) -> PyResult<Completion> {
        let ids = job_ids.iter().map(|id| convert::text(id, "job_id")).collect::<Result<Vec<_>, _>>();
        let ids = ids.map_err(refused(py))?;
        let force = convert::flag(force, "force").map_err(refused(py))?;
        Ok(Completion::value(self.engine(py)?.store().requeue(ids, force), |py, answers| {
            let words = answers.into_iter().map(|answer| match answer {
                Ok(Requeue::Requeued) => ("requeued", None),
                Ok(Requeue::Refused(kind)) => ("refused", Some(kind.as_str())),
                Ok(Requeue::NotSettled) => ("not_settled", None),
                Err(_) => ("not_found", None),
            });
            PyList::new(py, words.collect::<Vec<_>>())?.into_py_any(py)
        }))
    }

    /// Dead letters: `(records, cursor)`.
    fn dead_letters(
        &self,
        py: Python<'_>,
        queue: Option<&Bound<'_, PyAny>>,
        after: Option<&Bound<'_, PyAny>>,
        limit: &Bound<'_, PyAny>,
    ) -> PyResult<Completion> {
        let queue = queue.map(|queue| convert::text(queue, "queue")).transpose().map_err(refused(py))?;
        let after = after.map(|after| convert::cursor(DEAD_LETTERS, after)).transpose().map_err(refused(py))?;
        let limit = convert::limit(limit, "limit").map_err(refused(py))?;
        Ok(Completion::value(self.engine(py)?.store().dead_letters(queue, after, limit), |py, answer| {
            page(py, DEAD_LETTERS, answer)
        }))
    }

    /// Jobs: `(records, cursor)`.
    #[pyo3(signature = (*, state, outcome, queue, lane, after, limit))]
    #[allow(clippy::too_many_arguments, reason = "filters, all of them named")]
    fn jobs(
        &self,
        py: Python<'_>,
        state: Option<&Bound<'_, PyAny>>,
        outcome: Option<&Bound<'_, PyAny>>,
        queue: Option<&Bound<'_, PyAny>>,
        lane: Option<&Bound<'_, PyAny>>,
        after: Option<&Bound<'_, PyAny>>,
        limit: &Bound<'_, PyAny>,
    ) -> PyResult<Completion> {
        let request = || {
            Ok(JobsRequest {
                state: convert::state_filter(state, outcome)?,
                queue: queue.map(|queue| convert::text(queue, "queue")).transpose()?,
                lane: lane.map(|lane| convert::text(lane, "lane")).transpose()?,
                after: after.map(|after| convert::cursor(JOBS, after)).transpose()?,
                limit: convert::limit(limit, "limit")?,
            })
        };
        let request = request().map_err(refused(py))?;
        Ok(Completion::value(self.engine(py)?.store().jobs(request), |py, answer| page(py, JOBS, answer)))
    }

    /// Counts up to `bound`: `(queues, outcomes)`, both lists of tuples.
    fn stats(&self, py: Python<'_>, bound: &Bound<'_, PyAny>) -> PyResult<Completion> {
        let bound = convert::limit(bound, "bound").map_err(refused(py))?;
        Ok(Completion::value(self.engine(py)?.store().stats(bound), |py, stats| {
            let mut queues = Vec::with_capacity(stats.queues.len());
            for (queue, counts) in stats.queues {
                let oldest_due = counts.oldest_due.map(|at| convert::datetime(py, at)).transpose()?;
                queues.push((queue, counts.queued, counts.due, counts.running, oldest_due));
            }
            let outcomes: Vec<_> = stats.outcomes.into_iter().map(|(kind, count)| (kind.as_str(), count)).collect();
            let oldest_snapshot = stats.oldest_snapshot.map(|snapshot| {
                let age = snapshot.age.map(|age| Duration::from_micros(age.unsigned_abs()).as_secs_f64());
                (snapshot.kind, snapshot.holder, snapshot.application, age, snapshot.transactions)
            });
            (PyList::new(py, queues)?, PyList::new(py, outcomes)?, oldest_snapshot).into_py_any(py)
        }))
    }

    /// The oldest claim that a liveness probe stands for, after a cursor: `(record, cursor, number, token)` or `None`.
    fn probe(&self, py: Python<'_>, after: Option<&Bound<'_, PyAny>>) -> PyResult<Completion> {
        let after = after.map(|after| convert::cursor(PROBED, after)).transpose().map_err(refused(py))?;
        Ok(Completion::value(self.engine(py)?.store().probe(after), |py, probed| match probed {
            None => Ok(py.None()),
            Some(probed) => {
                let record = Py::new(py, JobRecord::new(probed.job))?;
                let cursor = convert::cursor_text(PROBED, probed.cursor);
                (record, cursor, probed.key.number, &*probed.key.lease_token).into_py_any(py)
            }
        }))
    }

    /// Recover a claim that a liveness probe found dead: `(recovered, interrupted)`.
    fn recover_claim(&self, py: Python<'_>, number: i64, lease_token: String) -> PyResult<Completion> {
        let claim = ClaimKey { number, lease_token: lease_token.into() };
        Ok(Completion::value(
            self.engine(py)?.store().recover_claim(claim, "the liveness probe found it dead".into()),
            |py, recovery| {
                (PyTuple::new(py, recovery.recovered)?, PyTuple::new(py, recovery.interrupted)?).into_py_any(py)
            },
        ))
    }

    /// Take part in running the jobs: with leases, or as the one runtime that probes. With `adopt`, claims that nobody probes
    /// any more get a lease at once, and not only with the next claim.
    fn lock_runtime(&self, py: Python<'_>, lease: Option<&Bound<'_, PyAny>>, adopt: bool) -> PyResult<RuntimeLock> {
        let engine = self.engine(py)?;
        let Some(lease) = lease else {
            let lock = engine.store().lock_runtime(Runtime::Probe).map_err(|error| raise(py, error, None))?;
            return Ok(RuntimeLock::new(lock));
        };
        let lease = convert::duration(lease, "lease").map_err(refused(py))?;
        admission::lease(lease).map_err(|error| raise(py, error, None))?;
        let lock = engine.store().lock_runtime(Runtime::Lease).map_err(|error| raise(py, error, None))?;
        if adopt {
            py.detach(|| engine.adopt(lease)).map_err(|error| raise(py, error, None))?;
        }
        Ok(RuntimeLock::new(lock))
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

    fn schema_identity(&self, py: Python<'_>) -> PyResult<Completion> {
        Ok(Completion::value(self.engine(py)?.store().schema_identity(), |py, identity| identity.into_py_any(py)))
    }

    /// Have `callback(next)` called after changes, with when the next work is due; `None` for no more.
    fn set_wake(&self, py: Python<'_>, callback: Option<Py<PyAny>>) -> PyResult<()> {
        let wake = callback.map(|callback| -> WakeCallback {
            Box::new(move |next| {
                // `None`: the interpreter shuts down.
                let _ = attach(|py| {
                    let called = next
                        .map(|next| convert::datetime(py, next))
                        .transpose()
                        .and_then(|next| callback.call1(py, (next,)).map(|_| ()));
                    if let Err(error) = called {
                        error.write_unraisable(py, Some(callback.bind(py)));
                    }
                });
            })
        });
        self.engine(py)?.set_wake(wake).map_err(|error| raise(py, error, None))
    }

    /// Stop renewing, finish what was asked for, and close. In a forked child it does nothing.
    fn close(&self, py: Python<'_>) {
        if self.engine.check_process().is_ok() {
            py.detach(|| self.engine.close());
        }
    }
}

/// Have a thread of ours call a Python function: what it returns or raises.
#[pyfunction]
pub(super) fn in_thread(call: Py<PyAny>) -> PyResult<Completion> {
    let (reply, completion) = crate::completion::Completion::<PyResult<Py<PyAny>>>::pair();
    let body = move || {
        if let Some(result) = attach(|py| call.call0(py)) {
            reply.send(Ok(result));
        }
    };
    std::thread::Builder::new().name("bandog-open".into()).spawn(body)?;
    Ok(Completion::new(completion, |py, answer| match answer {
        Ok(result) => result,
        Err(error) => Err(raise(py, error, None)),
    }))
}

fn lane_names(queue: &Bound<'_, PyAny>, lane: &Bound<'_, PyAny>) -> Result<(String, String), Failure> {
    let (queue, lane) = (convert::text(queue, "queue")?, convert::text(lane, "lane")?);
    admission::name("queue", &queue)?;
    admission::name("lane", &lane)?;
    Ok((queue, lane))
}

/// The lists, by the letter that their cursors begin with.
const JOBS: char = 'j';
const DEAD_LETTERS: char = 'd';
const PROBED: char = 'p';

fn page(py: Python<'_>, list: char, page: Page) -> PyResult<Py<PyAny>> {
    let records = PyList::new(py, page.jobs.into_iter().map(JobRecord::new))?;
    (records, page.next.map(|next| convert::cursor_text(list, next))).into_py_any(py)
}

fn names(claims: &Bound<'_, PyList>) -> PyResult<Vec<ClaimName>> {
    let py = claims.py();
    claims.iter().map(|claim| convert::claim_name(&claim).map_err(refused(py))).collect()
}
