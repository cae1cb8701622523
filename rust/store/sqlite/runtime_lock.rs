//! Who runs the jobs of a file: any number of runtimes that hold leases, or one whose host probes for liveness.
//!
//! A probing host knows only its own executions, so that a second runtime beside it would be found dead. A lock on a file of
//! its own beside the database keeps them apart: shared by the runtimes with leases, exclusive for the one that probes. It
//! goes with the process, however that ends, so that a restart works at once. It is a lock of the process (POSIX), because a
//! forked child must not inherit it; within the process a table counts.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::fork::Generation;
use crate::store::Runtime;

struct Holders {
    file: File,
    runtime: Runtime,
    count: usize,
    opened_in: Generation,
}

static HOLDERS: Mutex<Option<HashMap<PathBuf, Holders>>> = Mutex::new(None);

/// Held until it is dropped.
pub(super) struct RuntimeLock {
    path: PathBuf,
    opened_in: Generation,
}

fn holders() -> MutexGuard<'static, Option<HashMap<PathBuf, Holders>>> {
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Take the lock for a runtime on the database `target`, or say who has it.
pub(super) fn lock(target: &str, runtime: Runtime) -> Result<RuntimeLock> {
    let conflict = |problem: &str| Error::RuntimeConflict { target: target.to_owned(), problem: problem.to_owned() };
    let path = PathBuf::from(format!("{target}-runtime"));
    let opened_in = Generation::current();
    let mut holders = holders();
    let table = holders.get_or_insert_default();
    // What a forked child found in its copy of the table belongs to its parent.
    table.retain(|_, entry| entry.opened_in.is_current());
    if let Some(entry) = table.get_mut(&path) {
        if entry.runtime == Runtime::Probe || runtime == Runtime::Probe {
            return Err(conflict(
                "another runtime of this process is at work on it, and a liveness probe must be the only one; close that \
                 runtime first",
            ));
        }
        entry.count += 1;
        return Ok(RuntimeLock { path, opened_in });
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| Error::StoreFailed { target: path.display().to_string(), problem: error.to_string() })?;
    if !try_lock(&file, runtime) {
        return Err(conflict(match runtime {
            Runtime::Probe => {
                "another process runs its jobs, and a liveness probe must be the only runtime of a file; stop that process, \
                 or run with leases instead of is_alive"
            }
            Runtime::Lease => {
                "another process runs its jobs and probes for liveness (is_alive), which leaves room for no other runtime; \
                 stop that process first"
            }
        }));
    }
    table.insert(path.clone(), Holders { file, runtime, count: 1, opened_in });
    Ok(RuntimeLock { path, opened_in })
}

#[cfg(unix)]
fn try_lock(file: &File, runtime: Runtime) -> bool {
    use rustix::fs::{FlockOperation, fcntl_lock};
    let operation = match runtime {
        Runtime::Probe => FlockOperation::NonBlockingLockExclusive,
        Runtime::Lease => FlockOperation::NonBlockingLockShared,
    };
    fcntl_lock(file, operation).is_ok()
}

/// Untested: no such machine was at hand.
#[cfg(not(unix))]
fn try_lock(file: &File, runtime: Runtime) -> bool {
    match runtime {
        Runtime::Probe => file.try_lock().is_ok(),
        Runtime::Lease => file.try_lock_shared().is_ok(),
    }
}

impl Drop for RuntimeLock {
    fn drop(&mut self) {
        if !self.opened_in.is_current() {
            return; // a forked child's copy: the lock is the parent's
        }
        let mut holders = holders();
        let Some(table) = holders.as_mut() else { return };
        if let Some(entry) = table.get_mut(&self.path) {
            entry.count -= 1;
            if entry.count == 0 {
                // Closing the file drops the lock. The file stays: removing it would let two processes lock two files.
                drop(table.remove(&self.path).map(|entry| entry.file));
            }
        }
    }
}
