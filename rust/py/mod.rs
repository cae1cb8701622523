//! The boundary to Python: `bandog._core`. It converts, waits outside the interpreter, and raises; it decides nothing.
//!
//! - `engine`: the handle of an open store, one method per operation
//! - `completion`: one result, waited for
//! - `rows`: what the store answers (`ClaimedJob`, `Admission`, `JobRecord`), converted when it is looked at
//! - `pool`: claimed jobs for a worker's executors, and their reports
//! - `token`: the cancellation token
//! - `transfer`: what a worker and its child processes hand to each other
//! - `attach`: how threads of ours enter the interpreter, and are kept out once it ends
//! - `deliver`: the thread that calls into the interpreter for those who must not wait for it
//! - `runtime_lock`: who runs the jobs
//! - `convert`, `json`: Python values to the engine's and back
//! - `error`: the engine's errors to the classes of `bandog/errors.py`
//! - `logging`: log records, handed over so that no thread of ours waits for the interpreter
//! - `clock`: the clock that tests move

mod attach;
mod clock;
mod completion;
mod convert;
mod deliver;
mod engine;
mod error;
mod json;
mod logging;
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
mod rows;
mod runtime_lock;
mod token;
mod transfer;

use pyo3::prelude::*;
use pyo3::types::PyString;

use self::error::Failure;

/// The canonical JSON text of a Python value.
#[pyfunction]
fn canonical_json(value: &Bound<'_, PyAny>, limit: usize) -> PyResult<String> {
    json::canonical(value, limit).map_err(|fault| Failure::json("payload", fault).raise(value.py(), None))
}

/// The canonical JSON text of a JSON text.
#[pyfunction]
fn canonical_json_text(text: &Bound<'_, PyString>, limit: usize) -> PyResult<String> {
    json::canonical_text(text, limit).map_err(|fault| Failure::json("payload", fault).raise(text.py(), None))
}

/// The version of the SQLite library that is compiled in.
#[pyfunction]
fn sqlite_version() -> &'static str {
    rusqlite::version()
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    logging::install(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DEBUG_BUILD", cfg!(debug_assertions))?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<completion::Completion>()?;
    module.add_class::<pool::Pool>()?;
    module.add_class::<rows::Admission>()?;
    module.add_class::<rows::ClaimedJob>()?;
    module.add_class::<rows::JobRecord>()?;
    module.add_class::<runtime_lock::RuntimeLock>()?;
    module.add_class::<token::CancellationToken>()?;
    module.add_class::<transfer::FrozenReport>()?;
    module.add_class::<clock::FakeClock>()?;
    module.add_function(wrap_pyfunction!(canonical_json, module)?)?;
    module.add_function(wrap_pyfunction!(canonical_json_text, module)?)?;
    module.add_function(wrap_pyfunction!(sqlite_version, module)?)?;
    module.add_function(wrap_pyfunction!(engine::in_thread, module)?)?;
    for function in [
        wrap_pyfunction!(transfer::freeze_report, module)?,
        wrap_pyfunction!(transfer::thaw_report, module)?,
        wrap_pyfunction!(transfer::thaw_claim, module)?,
        wrap_pyfunction!(transfer::remote_token, module)?,
        wrap_pyfunction!(transfer::abort_token, module)?,
    ] {
        module.add_function(function)?;
    }
    #[cfg(feature = "postgres")]
    {
        module.add_function(wrap_pyfunction!(postgres::migrate_postgres, module)?)?;
        module.add_function(wrap_pyfunction!(postgres::migration_status_postgres, module)?)?;
        module.add_function(wrap_pyfunction!(postgres::uninstall_postgres, module)?)?;
    }
    module.add_function(wrap_pyfunction!(attach::shut_down, module)?)?;
    Ok(())
}

/// A method was called on a completion, or the like, in a way that only a bug in the Python layer would.
fn misuse(problem: &str) -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err(problem.to_owned())
}
