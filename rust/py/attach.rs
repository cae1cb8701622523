//! How threads of ours enter the interpreter, and how they are kept out once it ends.
//!
//! A thread that is inside while the interpreter shuts down aborts the process. So the last exit handler (see
//! `bandog/_native.py`) lets nobody in any more and waits a moment for those who are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How long the end of the interpreter waits for callbacks that are under way.
const PATIENCE: Duration = Duration::from_secs(2);

static INSIDE: AtomicUsize = AtomicUsize::new(0);
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Run `body` in the interpreter; `None` where that has ended, or is about to.
pub(super) fn attach<R>(body: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let _inside = Inside;
    if CLOSED.load(Ordering::SeqCst) { None } else { Python::try_attach(body) }
}

/// Wait outside the interpreter, in a thread that is allowed to miss its end: once the interpreter shuts down the thread never
/// comes back. It would be ended inside native code, which aborts the process.
pub(super) fn outside<R: Send>(py: Python<'_>, wait: impl FnOnce() -> R + Send) -> R {
    let result = py.detach(|| {
        let result = wait();
        INSIDE.fetch_add(1, Ordering::SeqCst);
        if CLOSED.load(Ordering::SeqCst) {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
            loop {
                std::thread::park();
            }
        }
        result
    });
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Let no thread of ours into the interpreter from here on, and wait for those that are inside.
#[pyfunction]
pub(super) fn shut_down(py: Python<'_>) {
    CLOSED.store(true, Ordering::SeqCst);
    py.detach(|| {
        let until = Instant::now() + PATIENCE;
        while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
