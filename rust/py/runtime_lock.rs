//! A runtime's part in running the jobs of a store.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::store::RuntimeLock as EngineLock;

/// Held until it is released or collected.
#[pyclass(frozen, module = "bandog._core")]
pub(super) struct RuntimeLock(Mutex<Option<EngineLock>>);

impl RuntimeLock {
    pub(super) fn new(lock: EngineLock) -> Self {
        Self(Mutex::new(Some(lock)))
    }
}

#[pymethods]
impl RuntimeLock {
    /// Stop taking part. Releasing twice is allowed.
    fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
