//! The engine's errors as the classes of `bandog/errors.py`: one class per variant, the fields as keyword arguments.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::json::Fault;
use crate::error::Error;

/// Why a value could not be converted.
pub(super) enum Failure {
    /// The engine's rules refuse it.
    Refused(Error),
    /// Python code that ran meanwhile raised what is not ours to swallow: `KeyboardInterrupt`, `MemoryError`, …
    Raised(PyErr),
}

/// A converted value.
pub(super) type Converted<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Failure {
    /// A value that is not storable JSON.
    pub(super) fn json(field: &'static str, fault: Fault) -> Self {
        match fault {
            Fault::Refused(refusal) => {
                Self::Refused(Error::NotJson { field, path: refusal.path, problem: refusal.problem })
            }
            Fault::Raised(error) => Self::Raised(error),
        }
    }

    /// As an exception.
    pub(super) fn raise(self, py: Python<'_>, job_id: Option<&str>) -> PyErr {
        match self {
            Self::Refused(error) => raise(py, error, job_id),
            Self::Raised(error) => error,
        }
    }
}

/// The exception for an error; `job_id` names the job of a batch that it is about.
pub(super) fn raise(py: Python<'_>, error: Error, job_id: Option<&str>) -> PyErr {
    build(py, &error, job_id).unwrap_or_else(|broken| broken)
}

fn build(py: Python<'_>, error: &Error, job_id: Option<&str>) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    let class = match error {
        Error::Invalid { field, .. } => {
            fields.set_item("field", *field)?;
            fields.set_item("job_id", job_id)?;
            "InvalidJob"
        }
        Error::NotJson { field, path, .. } => {
            fields.set_item("field", *field)?;
            fields.set_item("path", path)?;
            fields.set_item("job_id", job_id)?;
            "PayloadError"
        }
        Error::Conflict { job_id, difference } => {
            fields.set_item("job_id", job_id)?;
            fields.set_item("difference", difference)?;
            "JobConflict"
        }
        Error::JobNotFound { job_id } => {
            fields.set_item("job_id", job_id)?;
            "JobNotFound"
        }
        Error::StaleClaim { job_id } => {
            fields.set_item("job_id", job_id)?;
            "StaleClaim"
        }
        Error::StoreBusy { target, waited_ms } => {
            fields.set_item("target", target)?;
            fields.set_item("waited", std::time::Duration::from_millis(*waited_ms).as_secs_f64())?;
            "StoreBusy"
        }
        Error::StorageFull { target } => {
            fields.set_item("target", target)?;
            "StorageFull"
        }
        Error::StoreFailed { target, .. } => {
            fields.set_item("target", target)?;
            "StoreFailed"
        }
        Error::CannotOpen { path, .. } => {
            fields.set_item("target", path)?;
            "CannotOpen"
        }
        Error::SchemaMismatch { target, .. } => {
            fields.set_item("target", target)?;
            "SchemaMismatch"
        }
        Error::RuntimeConflict { target, .. } => {
            fields.set_item("target", target)?;
            "RuntimeConflict"
        }
        Error::Closed => "QueueClosed",
        Error::Forked { opened_by } => {
            fields.set_item("opened_by", *opened_by)?;
            "ForkedQueue"
        }
    };
    let message = match (error, job_id) {
        (Error::Invalid { .. } | Error::NotJson { .. }, Some(job_id)) => format!("job {job_id:?}: {error}"),
        _ => error.to_string(),
    };
    let class = py.import("bandog.errors")?.getattr(class)?.cast_into::<PyType>()?;
    Ok(PyErr::from_value(class.call((message,), Some(&fields))?))
}
