//! The cancellation token as Python sees it.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::convert;
use super::deliver::deliver;
use crate::engine::cancellation::{AbortReason, CancellationToken as EngineToken};
use crate::fork::Generation;

/// Watched by an executor; aborted once, with a reason.
#[pyclass(frozen, module = "bandog._core")]
pub(super) struct CancellationToken {
    token: EngineToken,
    made_in: Generation,
}

impl CancellationToken {
    pub(super) fn new(token: EngineToken) -> Self {
        Self { token, made_in: Generation::current() }
    }

    /// In a forked child the token's lock may be held by a thread that is not there.
    pub(super) fn token(&self, py: Python<'_>) -> PyResult<&EngineToken> {
        self.made_in.check().map_err(|error| super::error::raise(py, error, None))?;
        Ok(&self.token)
    }
}

#[pymethods]
impl CancellationToken {
    #[getter]
    fn aborted(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.token(py)?.reason().is_some())
    }

    #[getter]
    fn reason(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        Ok(self.token(py)?.reason().map(|reason| reason.as_str()))
    }

    /// What was said when the cancellation was asked for.
    #[getter]
    fn detail(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(match self.token(py)?.reason() {
            Some(AbortReason::CancelRequested(detail)) => Some(detail),
            _ => None,
        })
    }

    fn raise_if_aborted(&self, py: Python<'_>) -> PyResult<()> {
        match self.token(py)?.reason() {
            None => Ok(()),
            Some(reason) => {
                let class = py.import("bandog.errors")?.getattr("JobAborted")?;
                Err(PyErr::from_value(class.call1((reason.as_str(),))?))
            }
        }
    }

    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let token = self.token(py)?;
        let until = match timeout {
            None => None,
            Some(timeout) => {
                let micros = convert::duration(timeout, "timeout").map_err(|failure| failure.raise(py, None))?;
                Instant::now().checked_add(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
            }
        };
        loop {
            let slice = Instant::now() + Duration::from_millis(100);
            let reason = py.detach(|| token.wait_until(until.map_or(slice, |until| until.min(slice))));
            if reason.is_some() {
                return Ok(true);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }

    fn add_callback(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        self.token(py)?.on_abort(move |reason| {
            let reason = reason.as_str();
            deliver(move |py| {
                if let Err(error) = callback.call1(py, (reason,)) {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        });
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match self.token(py)?.reason() {
            None => "<CancellationToken>".into(),
            Some(reason) => format!("<CancellationToken aborted: {}>", reason.as_str()),
        })
    }
}
