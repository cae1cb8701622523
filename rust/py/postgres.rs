//! What only the PostgreSQL store takes: its options, and migrating its schema.

use std::time::Duration;

use pyo3::prelude::*;

use super::clock::FakeClock;
use super::convert;
use super::error::{Converted, Failure, raise};
use crate::admission;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::options::{PostgresOptions, Schema};

/// The settings of a store.
pub(super) fn options(
    schema: &Bound<'_, PyAny>,
    busy_timeout: &Bound<'_, PyAny>,
    clock: Option<&Bound<'_, FakeClock>>,
) -> Converted<PostgresOptions> {
    let busy_timeout = convert::duration(busy_timeout, "busy_timeout")?;
    admission::duration("busy_timeout", busy_timeout)?;
    let mut options = PostgresOptions {
        schema: Schema::new(&convert::text(schema, "schema")?)?,
        busy_timeout: Duration::from_micros(busy_timeout.unsigned_abs()),
        ..PostgresOptions::default()
    };
    if let Some(clock) = clock {
        options.clock = clock.get().clock();
    }
    Ok(options)
}

fn located(url: &Bound<'_, PyAny>, schema: &Bound<'_, PyAny>) -> PyResult<(String, PostgresOptions)> {
    let read = || -> Converted<_> {
        let options = PostgresOptions { schema: Schema::new(&convert::text(schema, "schema")?)?, ..Default::default() };
        Ok((convert::text(url, "url")?, options))
    };
    read().map_err(|failure: Failure| failure.raise(url.py(), None))
}

/// Bring a schema to the version of this bandog: the versions before and after.
#[pyfunction]
pub(super) fn migrate_postgres(url: &Bound<'_, PyAny>, schema: &Bound<'_, PyAny>) -> PyResult<(u32, u32)> {
    let (text, options) = located(url, schema)?;
    let py = url.py();
    py.detach(|| PostgresStore::migrate(&text, options)).map_err(|error| raise(py, error, None))
}

/// Remove everything that migrating made: the version that was there, and whether the schema is gone.
#[pyfunction]
pub(super) fn uninstall_postgres(url: &Bound<'_, PyAny>, schema: &Bound<'_, PyAny>) -> PyResult<(u32, bool)> {
    let (text, options) = located(url, schema)?;
    let py = url.py();
    py.detach(|| PostgresStore::uninstall(&text, options)).map_err(|error| raise(py, error, None))
}

/// The version of a schema, 0 where there are no tables, and that of this bandog.
#[pyfunction]
pub(super) fn migration_status_postgres(url: &Bound<'_, PyAny>, schema: &Bound<'_, PyAny>) -> PyResult<(u32, u32)> {
    let (text, options) = located(url, schema)?;
    let py = url.py();
    py.detach(|| PostgresStore::migration_status(&text, options)).map_err(|error| raise(py, error, None))
}
