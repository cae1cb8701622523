//! A register of our open sockets, which a forked child closes.
//!
//! A child that outlives a killed parent would otherwise keep the connections open, and with them the sessions on the server
//! and every row that they have locked. So each socket is in the register from before it is connected until it is closed, and
//! the child closes what the register names before any user code runs.
#![allow(unsafe_code, reason = "registers fork handlers, and closes descriptors by number in a forked child")]

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A socket's descriptor, where processes fork.
pub(super) type Number = i32;

type Guard = MutexGuard<'static, Vec<Number>>;

static OPEN: Mutex<Vec<Number>> = Mutex::new(Vec::new());

/// Lock the register. A fork waits meanwhile, so hold it for as long as a system call takes that waits for nobody.
pub(super) fn lock() -> Guard {
    #[cfg(unix)]
    handlers::register();
    held()
}

fn held() -> Guard {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a socket.
#[cfg(unix)]
pub(super) fn number(socket: &impl std::os::fd::AsRawFd) -> Number {
    socket.as_raw_fd()
}

/// There is no fork: one number does for all.
#[cfg(not(unix))]
pub(super) fn number<T>(_socket: &T) -> Number {
    0
}

#[cfg(unix)]
mod handlers {
    use super::{Guard, held};
    use std::cell::Cell;
    use std::sync::Once;

    /// The lock, carried from before a fork to after it.
    struct Held(Cell<Option<Guard>>);

    // SAFETY: only the holder of the lock touches the cell: it is filled after locking and emptied to unlock, on one thread.
    unsafe impl Sync for Held {}

    static HELD: Held = Held(Cell::new(None));

    /// Registers the handlers, once, for the rest of the process's life.
    pub(super) fn register() {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: the three functions live as long as this library, take no arguments and never unwind.
            let outcome = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
            assert_eq!(outcome, 0, "pthread_atfork failed: out of memory");
        });
    }

    unsafe extern "C" fn prepare() {
        HELD.0.set(Some(held()));
    }

    unsafe extern "C" fn parent() {
        drop(HELD.0.take());
    }

    /// Only what is safe after the fork of a process with many threads: system calls, and the release of this thread's lock.
    unsafe extern "C" fn child() {
        if let Some(mut open) = HELD.0.take() {
            for &descriptor in &*open {
                // SAFETY: the number is an open socket's of ours. What used it is the parent's, or refuses to here.
                unsafe { libc::close(descriptor) };
            }
            open.clear(); // frees nothing
        }
    }
}
