//! The clock that tests move.

use std::sync::Arc;

use pyo3::prelude::*;

use super::convert;
use crate::clock::{Clock, FakeClock as EngineFakeClock};

/// A clock that stands still until it is moved. See `bandog.testing.FakeClock`.
#[pyclass(frozen, module = "bandog._core")]
pub(super) struct FakeClock(EngineFakeClock);

impl FakeClock {
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.0.clone())
    }
}

#[pymethods]
impl FakeClock {
    #[new]
    fn new(start: &Bound<'_, PyAny>) -> PyResult<Self> {
        let start = convert::instant(start, "start").map_err(|failure| failure.raise(start.py(), None))?;
        Ok(Self(EngineFakeClock::new(start)))
    }

    fn now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::datetime(py, self.0.now().wall)
    }

    fn advance(&self, py: Python<'_>, by: &Bound<'_, PyAny>) -> PyResult<()> {
        let by = convert::duration(by, "by")
            .and_then(|micros| Ok(crate::admission::duration("by", micros).map(|()| micros)?));
        self.0.advance(by.map_err(|failure| failure.raise(py, None))?);
        Ok(())
    }

    fn step_wall(&self, by: &Bound<'_, PyAny>) -> PyResult<()> {
        self.0.step_wall(convert::duration(by, "by").map_err(|failure| failure.raise(by.py(), None))?);
        Ok(())
    }

    fn reboot(&self, boot: &str) {
        self.0.reboot(boot);
    }
}
