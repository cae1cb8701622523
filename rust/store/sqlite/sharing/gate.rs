//! The gate: every thread holds it while it is inside our `SQLite`, and `fork` waits until nobody does.
//!
//! A forked child has only the thread that forked. If another thread was inside `SQLite`, the child inherits its mutexes
//! locked for ever and its structures half changed. One atomic number holds the whole state: the count of threads
//! inside, and a bit that says that a fork wants everyone out. There is no lock to inherit, so nothing to repair in the child
//! beyond storing the number. Waiting is polling: a fork takes about a millisecond and is rare.
//!
//! - A thread that is inside may enter again while a fork is pending: it is counted once, and only its own depth grows. (A
//!   `RwLock` that prefers writers would deadlock here.)
//! - A thread that forks while inside steps out for the wait, so that two of them do not wait for each other.
//! - The wait ends after [`PATIENCE`]. A caller that holds the gate while it waits for the forking thread (it wants the GIL,
//!   say) would otherwise freeze the process; now the fork goes on, and the child is told that its `SQLite` is unusable.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Set while a fork waits or runs; the other bits count the threads inside.
const FORKING: usize = 1 << (usize::BITS - 1);

/// How long a fork waits for threads inside. Longer than any one statement should take; shorter than a user's patience.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks, by the fork and by those that wait for it to end.
const PAUSE: Duration = Duration::from_micros(50);

static STATE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// How often this thread is inside. No destructor, so it may be read at any time, thread exit and fork included.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The right to be inside our `SQLite`. Belongs to one thread.
#[must_use = "the gate is open only while this value lives"]
pub(crate) struct Gate {
    /// Entering and leaving change the depth of one thread, so the value must not move to another.
    _this_thread: PhantomData<*const ()>,
}

/// Waits while a fork is under way, then lets this thread into our `SQLite` until the result is dropped.
pub(crate) fn enter() -> Gate {
    let depth = DEPTH.get();
    if depth == 0 {
        while STATE.fetch_add(1, Ordering::Acquire) & FORKING != 0 {
            STATE.fetch_sub(1, Ordering::Release);
            while fork_pending() {
                std::thread::sleep(PAUSE);
            }
        }
    }
    DEPTH.set(depth + 1);
    Gate { _this_thread: PhantomData }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            STATE.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Whether a fork waits for threads to leave. A busy handler should give up then, and its caller try again.
pub(crate) fn fork_pending() -> bool {
    STATE.load(Ordering::Relaxed) & FORKING != 0
}

/// Before `fork`: keeps newcomers out and waits for those inside. False if they did not leave in time.
///
/// The caller owns the only pending fork until it calls one of the `reopen` functions.
#[cfg(unix)]
pub(super) fn shut() -> bool {
    shut_within(PATIENCE)
}

#[cfg(unix)]
pub(super) fn shut_within(patience: Duration) -> bool {
    STATE.fetch_sub(counted_here(), Ordering::Release);
    while STATE.fetch_or(FORKING, Ordering::AcqRel) & FORKING != 0 {
        std::thread::sleep(PAUSE);
    }
    let start = Instant::now();
    while STATE.load(Ordering::Acquire) != FORKING {
        if start.elapsed() > patience {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// After `fork`, in the parent: newcomers may enter, and this thread is inside again if it was.
#[cfg(unix)]
pub(super) fn reopen_in_parent() {
    // Not a store: threads that met the bit are about to take back their own increment.
    STATE.fetch_sub(FORKING - counted_here(), Ordering::Release);
}

/// After `fork`, in the child: only this thread exists.
#[cfg(unix)]
pub(super) fn reopen_in_child() {
    STATE.store(counted_here(), Ordering::Release);
}

/// What this thread adds to the count: one if it is inside, however deep.
#[cfg(unix)]
fn counted_here() -> usize {
    usize::from(DEPTH.get() > 0)
}
