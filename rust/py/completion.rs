//! One result, waited for outside the interpreter.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::deliver::deliver;
use super::error::raise;
use super::misuse;
use crate::completion::Completion as EngineCompletion;
use crate::error::Error;

/// How long a wait stays outside the interpreter before it looks for a signal.
const SLICE: Duration = Duration::from_millis(100);

/// What turns the engine's answer into Python's; it runs in the interpreter.
type Convert<T> = Box<dyn FnOnce(Python<'_>, Result<T, Error>) -> PyResult<Py<PyAny>> + Send>;

/// A completion of any type.
trait Pending: Send {
    fn wait_until(&mut self, py: Python<'_>, deadline: Instant) -> Option<PyResult<Py<PyAny>>>;
    /// Nobody will take the result.
    fn abandon(self: Box<Self>);
    /// Have a Python function called with the result and the error, one of them `None`.
    fn then(self: Box<Self>, callback: Py<PyAny>);
}

/// What is done with a result that nobody takes; it must not block.
type Abandon<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

struct Typed<T> {
    completion: EngineCompletion<T>,
    convert: Option<Convert<T>>,
    abandon: Option<Abandon<T>>,
}

impl<T: Send + 'static> Pending for Typed<T> {
    fn wait_until(&mut self, py: Python<'_>, deadline: Instant) -> Option<PyResult<Py<PyAny>>> {
        let completion = &mut self.completion;
        let answer = py.detach(|| completion.wait_until(deadline))?;
        let convert = self.convert.take()?;
        Some(convert(py, answer))
    }

    fn abandon(self: Box<Self>) {
        if let Some(abandon) = self.abandon {
            self.completion.on_done(abandon);
        }
    }

    fn then(self: Box<Self>, callback: Py<PyAny>) {
        let Self { completion, convert, .. } = *self;
        let Some(convert) = convert else { return };
        completion.on_done(move |answer| {
            deliver(move |py| {
                let called = match convert(py, answer) {
                    Ok(value) => callback.call1(py, (value, py.None())),
                    Err(error) => callback.call1(py, (py.None(), error.into_value(py))),
                };
                if let Err(error) = called {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        });
    }
}

/// The result of one operation, on its way.
#[pyclass(frozen, module = "bandog._core")]
pub(super) struct Completion(Mutex<Option<Box<dyn Pending>>>);

impl Completion {
    /// Wrap the engine's; `convert` makes the Python value, or the exception.
    pub(super) fn new<T: Send + 'static>(
        completion: EngineCompletion<T>,
        convert: impl FnOnce(Python<'_>, Result<T, Error>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        Self(Mutex::new(Some(Box::new(Typed { completion, convert: Some(Box::new(convert)), abandon: None }))))
    }

    /// Wrap the engine's, where every error is raised, and where a result that nobody takes needs to be undone.
    pub(super) fn undoable<T: Send + 'static>(
        completion: EngineCompletion<T>,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
        undo: impl FnOnce(T) + Send + 'static,
    ) -> Self {
        let convert: Convert<T> = Box::new(|py, answer| match answer {
            Ok(answer) => convert(py, answer),
            Err(error) => Err(raise(py, error, None)),
        });
        let abandon: Abandon<T> = Box::new(|answer| {
            if let Ok(answer) = answer {
                undo(answer);
            }
        });
        Self(Mutex::new(Some(Box::new(Typed { completion, convert: Some(convert), abandon: Some(abandon) }))))
    }

    /// Wrap the engine's, where every error is raised.
    pub(super) fn value<T: Send + 'static>(
        completion: EngineCompletion<T>,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        Self::new(completion, |py, answer| match answer {
            Ok(answer) => convert(py, answer),
            Err(error) => Err(raise(py, error, None)),
        })
    }
}

#[pymethods]
impl Completion {
    /// Have `callback(value, error)` called, from a thread of bandog's: it must hand the result on and return.
    fn then(&self, callback: Py<PyAny>) -> PyResult<()> {
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        pending.ok_or_else(|| misuse("this completion was waited for already"))?.then(callback);
        Ok(())
    }

    /// Wait for the result. A signal handler that raises ends the wait, not the operation.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut pending = pending.ok_or_else(|| misuse("this completion was waited for already"))?;
        loop {
            if let Some(result) = pending.wait_until(py, Instant::now() + SLICE) {
                return result;
            }
            if let Err(interrupt) = py.check_signals() {
                pending.abandon();
                return Err(interrupt);
            }
        }
    }
}
