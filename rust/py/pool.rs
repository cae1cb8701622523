//! The pool as a worker of `bandog/worker.py` sees it: jobs out, reports in, and how it is stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::attach::outside;
use super::convert;
use super::deliver::deliver;
use super::error::{Converted, raise};
use super::rows::ClaimedJob;
use super::token::CancellationToken;
use crate::admission;
use crate::engine::Engine;
use crate::engine::cancellation::AbortReason;
use crate::engine::events::{Event, EventSink};
use crate::engine::pool::{Assignment, Ending, Pool as EnginePool, PoolOptions};
use crate::error::Error;
use crate::job::{ClaimRequest, Report};

/// A running pool.
#[pyclass(frozen, module = "bandog._core")]
pub(super) struct Pool {
    pool: EnginePool,
    payload_limit: usize,
}

/// What a worker asks for; checked as a whole.
#[derive(FromPyObject)]
pub(super) struct Settings<'py> {
    worker: Bound<'py, PyAny>,
    queues: Option<Vec<Bound<'py, PyAny>>>,
    lease: Bound<'py, PyAny>,
    concurrency: Bound<'py, PyAny>,
    prefetch: Bound<'py, PyAny>,
    timeout: Option<Bound<'py, PyAny>>,
    poll: Bound<'py, PyAny>,
    on_events: Option<Py<PyAny>>,
    on_available: Option<Py<PyAny>>,
}

/// How many jobs at once are more than any machine runs, and how many claimed ahead than any lease outlasts.
const MOST: u32 = 100_000;

impl Settings<'_> {
    fn options(&self) -> Converted<PoolOptions> {
        let queues = self
            .queues
            .as_ref()
            .map(|queues| queues.iter().map(|queue| convert::text(queue, "queues")).collect::<Result<Vec<_>, _>>());
        let within = |value: u32, field, least| {
            let problem = format!("must be from {least} to {MOST}, not {value}");
            if (least..=MOST).contains(&value) { Ok(value) } else { Err(Error::Invalid { field, problem }) }
        };
        let options = PoolOptions {
            worker: convert::text(&self.worker, "worker")?,
            queues: queues.transpose()?,
            lease: convert::duration(&self.lease, "lease")?,
            concurrency: within(
                convert::integer(&self.concurrency, "concurrency", "from 1 to 100000")?,
                "concurrency",
                1,
            )?,
            prefetch: within(convert::integer(&self.prefetch, "prefetch", "from 0 to 100000")?, "prefetch", 0)?,
            timeout: self.timeout.as_ref().map(|timeout| convert::duration(timeout, "timeout")).transpose()?,
            poll: duration(&self.poll, "poll")?,
        };
        if let Some(timeout) = options.timeout {
            admission::duration("timeout", timeout)?;
        }
        admission::claim(&ClaimRequest {
            lease_token: "".into(),
            worker: options.worker.clone(),
            queues: options.queues.clone(),
            limit: options.concurrency,
            lease: Some(options.lease),
            look_ahead: true,
        })?;
        Ok(options)
    }
}

/// A time to wait, which is more than nothing.
fn duration(value: &Bound<'_, PyAny>, field: &'static str) -> Converted<Duration> {
    let micros = convert::duration(value, field)?;
    admission::duration(field, micros)?;
    Ok(Duration::from_micros(micros.unsigned_abs().max(1_000)))
}

impl Pool {
    pub(super) fn start(
        py: Python<'_>,
        engine: &Engine,
        settings: Settings<'_>,
        payload_limit: usize,
    ) -> PyResult<Self> {
        let options = settings.options().map_err(|failure| failure.raise(py, None))?;
        let events = settings.on_events.map(event_sink);
        let notify = settings.on_available.map(|callback| -> Box<dyn Fn() + Send + Sync> {
            let callback = Arc::new(callback);
            Box::new(move || {
                let callback = Arc::clone(&callback);
                deliver(move |py| {
                    if let Err(error) = callback.call0(py) {
                        error.write_unraisable(py, Some(callback.bind(py)));
                    }
                });
            })
        });
        let pool = py.detach(|| engine.start_pool(options, events, notify)).map_err(|error| raise(py, error, None))?;
        Ok(Self { pool, payload_limit })
    }

    fn pool(&self, py: Python<'_>) -> PyResult<&EnginePool> {
        self.pool.check_process().map_err(|error| raise(py, error, None))?;
        Ok(&self.pool)
    }

    fn report(&self, py: Python<'_>, report: Option<&Bound<'_, PyAny>>) -> PyResult<Ending> {
        let report = report.map(|report| convert::report(report, self.payload_limit)).transpose();
        let report = report.map_err(|failure| failure.raise(py, None))?;
        Ok(Ending::Reported(report.unwrap_or(Report::Completed { result: None })))
    }
}

/// A report that cannot be read, and why.
type Unreadable<'py> = (usize, Option<Bound<'py, PyAny>>, PyErr);

type Task = (usize, ClaimedJob, CancellationToken);

fn task(assignment: Assignment) -> Task {
    let Assignment { slot, claim, token } = assignment;
    (slot, ClaimedJob::new(claim), CancellationToken::new(token))
}

#[pymethods]
impl Pool {
    /// Finish the job in `slot`, if one is given, with its report (`None`: completed). Then wait for the next job:
    /// `(slot, job, token)`, or `None` once there will be none any more.
    #[pyo3(signature = (slot=None, report=None))]
    fn next(&self, py: Python<'_>, slot: Option<usize>, report: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Task>> {
        let pool = self.pool(py)?;
        if let Some(slot) = slot {
            pool.finish([(slot, self.report(py, report)?)]);
        }
        let mut woken = false;
        loop {
            // With the interpreter in hand: a job that was taken before would wait for it as well.
            if let Some(assignment) = pool.take(woken) {
                return Ok(Some(task(assignment)));
            }
            woken = true;
            if !outside(py, || pool.wait_for_job()) {
                return Ok(None);
            }
        }
    }

    /// Up to `limit` jobs that can start now: a list of `(slot, job, token)`. Never waits. `QueueClosed` once there will be
    /// none any more, because the store is closed.
    fn take(&self, py: Python<'_>, limit: usize) -> PyResult<Vec<Task>> {
        let pool = self.pool(py)?;
        let mut tasks = Vec::new();
        while tasks.len() < limit
            && let Some(assignment) = pool.take(true)
        {
            tasks.push(task(assignment));
        }
        if tasks.is_empty() && pool.is_closed() {
            return Err(raise(py, Error::Closed, None));
        }
        Ok(tasks)
    }

    /// Finish the job in `slot` with its report (`None`: completed). Never waits.
    #[pyo3(signature = (slot, report=None))]
    fn finish(&self, py: Python<'_>, slot: usize, report: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.pool(py)?.finish([(slot, self.report(py, report)?)]);
        Ok(())
    }

    /// Finish several jobs, given as `(slot, report)`. Those whose report cannot be read are not finished, and returned with
    /// the exception as a third member. Never waits.
    fn finish_all<'py>(
        &self,
        py: Python<'py>,
        ended: Vec<(usize, Option<Bound<'py, PyAny>>)>,
    ) -> PyResult<Vec<Unreadable<'py>>> {
        let pool = self.pool(py)?;
        let mut unreadable = Vec::new();
        let mut endings = Vec::with_capacity(ended.len());
        for (slot, report) in ended {
            match self.report(py, report.as_ref()) {
                Ok(ending) => endings.push((slot, ending)),
                Err(error) => unreadable.push((slot, report, error)),
            }
        }
        pool.finish(endings);
        Ok(unreadable)
    }

    /// The executor of the job in `slot` is dead: recover the job at once. `how` completes "the claim was lost: …".
    fn lose(&self, py: Python<'_>, slot: usize, how: String) -> PyResult<()> {
        self.pool(py)?.finish([(slot, Ending::Lost(how))]);
        Ok(())
    }

    /// Claim nothing more, and hand back what nobody has started.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let pool = self.pool(py)?;
        py.detach(|| pool.drain());
        Ok(())
    }

    /// Wait, for so many seconds at most, until a state is reached: `idle` (no job runs), `recorded` (every report is), or
    /// `drained` (nothing is due, nothing runs, all is recorded). Whether it was.
    fn wait(&self, py: Python<'_>, state: &str, timeout: f64) -> PyResult<bool> {
        let pool = self.pool(py)?;
        let until =
            Instant::now() + Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(Duration::from_secs(86_400));
        loop {
            let slice = until.min(Instant::now() + Duration::from_millis(100));
            let reached = py.detach(|| match state {
                "idle" => pool.wait_idle(slice),
                "recorded" => pool.wait_recorded(slice),
                _ => pool.wait_drained(slice),
            });
            if reached || Instant::now() >= until {
                return Ok(reached);
            }
            py.check_signals()?;
        }
    }

    /// Wait, for so many seconds at most, until all events that there are have been handed over. Whether they were.
    fn flush(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        self.pool(py)?;
        let (sender, receiver) = std::sync::mpsc::channel();
        deliver(move |_| {
            let _ = sender.send(());
        });
        let timeout = Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or_default();
        Ok(py.detach(move || receiver.recv_timeout(timeout)).is_ok())
    }

    /// Tell every running executor to stop, with the reason `shutdown`.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.pool(py)?.running();
        py.detach(|| running.iter().for_each(|(_, token)| token.abort(AbortReason::Shutdown)));
        Ok(())
    }

    /// The ids of the jobs that run.
    fn running(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.pool(py)?.running().into_iter().map(|(claim, _)| claim.job_id.clone()).collect())
    }

    /// Counts and present state, by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.pool(py)?.stats();
        let counts = stats.counts;
        let dict = PyDict::new(py);
        for (name, count) in [("running", stats.running), ("waiting", stats.waiting), ("unrecorded", stats.unrecorded)]
        {
            dict.set_item(name, count)?;
        }
        for (name, count) in [
            ("claimed", counts.claimed),
            ("started", counts.started),
            ("completed", counts.completed),
            ("failed", counts.failed),
            ("cancelled", counts.cancelled),
            ("outcome_unknown", counts.outcome_unknown),
            ("retried", counts.retried),
            ("snoozed", counts.snoozed),
            ("released", counts.released),
            ("stale", counts.stale),
            ("recovered", counts.recovered),
            ("interrupted", counts.interrupted),
        ] {
            dict.set_item(name, count)?;
        }
        dict.set_item("problem", stats.problem)?;
        Ok(dict)
    }
}

/// Hand events to a Python function, as a list of tuples `(kind, job_id, queue, attempt, available_at, reason)`.
fn event_sink(callback: Py<PyAny>) -> EventSink {
    let callback = Arc::new(callback);
    Box::new(move |events| {
        let callback = Arc::clone(&callback);
        deliver(move |py| {
            let called = tuples(py, events).and_then(|events| callback.call1(py, (events,)));
            if let Err(error) = called {
                error.write_unraisable(py, Some(callback.bind(py)));
            }
        });
    })
}

fn tuples(py: Python<'_>, events: Vec<Event>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for Event { kind, job_id, claim, available_at, reason } in events {
        let available_at = available_at.map(|at| convert::datetime(py, at)).transpose()?;
        let queue = claim.as_ref().map(|claim| claim.queue.as_str());
        let attempt = claim.as_ref().map(|claim| claim.counters.attempts);
        list.append((kind, job_id, queue, attempt, available_at, reason).into_bound_py_any(py)?)?;
    }
    Ok(list)
}
