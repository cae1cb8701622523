//! What happens around `fork`: the child lets go of everything that it shares with its parent, and is numbered.
//!
//! Open file descriptions, and so their locks, are shared by parent and child: an unlock in the child would drop the
//! parent's lock, and a child that outlives a killed parent would keep the file locked. So the child `close(2)`s every
//! descriptor that our `SQLite` opened, before any user code runs. It never unlocks and never calls `SQLite`.
//!
//! Only what is safe after a `fork` of a process with many threads happens in the child: system calls, atomics, and the
//! release of a lock that this very thread took. No memory is allocated or freed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Forks between the original process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// False in a child whose parent could not empty the gate before it forked.
static USABLE: AtomicBool = AtomicBool::new(true);

/// The number of this process: 0 in the one that loaded us, one more in each forked child.
///
/// A handle made in another generation must be neither used nor closed.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// False if this process was forked while a thread was inside `SQLite` and would not leave: `SQLite` must not be entered.
pub(crate) fn usable() -> bool {
    USABLE.load(Ordering::Acquire)
}

#[cfg(not(unix))]
pub(super) fn register() {
    // There is no fork: these keep their first values.
    let _ = (&GENERATION, &USABLE);
}

#[cfg(unix)]
pub(super) use handlers::register;

#[cfg(unix)]
mod handlers {
    use super::super::{gate, platform};
    use super::{GENERATION, USABLE};
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The registry's lock, carried from `prepare` to `parent` or `child`.
    struct Held(Cell<Option<platform::Guard>>);

    // SAFETY: only the owner of the pending fork touches the cell: it is filled after `gate::shut` and emptied before
    // the gate is reopened, on one thread, and `gate::shut` admits one owner at a time.
    unsafe impl Sync for Held {}

    static HELD: Held = Held(Cell::new(None));

    /// Whether the gate was empty when `prepare` returned.
    static QUIET: AtomicBool = AtomicBool::new(true);

    /// Registers the handlers for the rest of the process's life.
    pub(in super::super) fn register() {
        // SAFETY: the three functions live as long as this library, take no arguments and never unwind.
        let outcome = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        // The only error is ENOMEM, at start: without the handlers a fork would be unsafe, and there is nobody to tell.
        assert_eq!(outcome, 0, "pthread_atfork failed: out of memory");
    }

    unsafe extern "C" fn prepare() {
        // The gate first: threads inside it take the registry's lock.
        QUIET.store(gate::shut(), Ordering::Relaxed);
        HELD.0.set(Some(platform::lock()));
    }

    unsafe extern "C" fn parent() {
        drop(HELD.0.take());
        gate::reopen_in_parent();
    }

    unsafe extern "C" fn child() {
        if let Some(mut registry) = HELD.0.take() {
            registry.abandon();
        }
        if !QUIET.load(Ordering::Relaxed) {
            USABLE.store(false, Ordering::Release);
        }
        GENERATION.fetch_add(1, Ordering::AcqRel);
        gate::reopen_in_child();
    }
}
