//! Makes one database file safe to use through two `SQLite` libraries in one process, and across `fork`.
//!
//! # Why
//!
//! Our engine links its own `SQLite`. Python's `sqlite3` links another one, and users open the queue's file with it
//! (directly, through `SQLAlchemy`, through Django) while the queue is open. Both lock the file with POSIX `fcntl` locks,
//! and those belong to the *process*: both libraries are granted the write lock at once, and whichever of them closes
//! any descriptor of the file drops every lock of the other. Measured without this module: two threads, 4,000 inserts
//! each, "database disk image is malformed" within seconds, or acknowledged commits silently gone.
//!
//! # The idea
//!
//! `SQLite`'s unix layer calls the system through a table that may be replaced. We replace seven entries:
//!
//! - `fcntl`: lock commands become their *open file description* forms. Such locks belong to an open file, not to the
//!   process: they conflict with the POSIX locks of anyone, this process included, and no foreign `close` drops them.
//! - But our `SQLite` still assumes that all its connections share one set of locks per file. So every lock call on an
//!   inode goes to **one canonical descriptor** of that inode, whichever descriptor `SQLite` named.
//! - `open`, `close`: a real `close` would drop the *other* library's POSIX locks. A database or `-shm` descriptor is
//!   therefore parked instead, and reused by the next open of the same inode. When the last one of an inode is parked,
//!   its locks are dropped by hand. When the file has no name any more, its descriptors are really closed.
//! - `stat`, `fstat`: report another device number in each forked child, so that a child never finds the lock counts and
//!   descriptors that `SQLite` remembers for its parent.
//! - `mmap`: a mapping keeps an open file, and so its locks, alive. Ours are not inherited by a forked child; otherwise a
//!   child that outlives a killed parent would keep the file locked.
//! - `unlink` and the rest stay as they are. WAL and journal files carry no locks and close normally.
//!
//! # Rules for callers
//!
//! 1. [`install`] before the first `SQLite` open of the process.
//! 2. Hold [`enter`] around every call into our `SQLite`: open, close, prepare, step, reset, finalize, drop. `fork` waits
//!    until no gate is held, so that a child never inherits a half-changed `SQLite`.
//! 3. While holding a gate, wait for nothing that another thread must do: no GIL (and so no logging that ends in Python),
//!    no channel, no lock that is held across [`enter`]. The forking thread usually holds the GIL; it waits for the gate.
//!    Wait for a busy database in short steps outside the gate, or give up when [`fork_pending`] says so.
//! 4. A handle remembers [`generation`] and refuses to be used, closed or dropped (it leaks) when the number differs.
//! 5. Ask [`descriptors_conflict`] at open. Where it says no, refuse a file that [`held_by_others_here`] reports.
//! 6. Refuse databases whose name is [`reserved_name`]: they would pass for a WAL or journal file.
//! 7. Allow no URI parameter that changes locking (`vfs`, `nolock`, `immutable`).
//!
//! # What remains undetectable
//!
//! - Code that opens and closes the file with plain `open`/`close` drops the POSIX locks of the *other* library (never
//!   ours). Two foreign `SQLite` libraries still destroy each other's locks. Neither can be seen from here.
//! - Where descriptors do not conflict, a foreign library that opens the file *after* we looked is not noticed.
//! - A foreign library inside `fork`: its rules are its own.
//! - Code that closes descriptors by number (`os.closerange`) closes ours too. A number that was reused for another file is
//!   recognised and left alone, but locks lost that way are lost.
//! - Parked descriptors stay: per inode, as many as were ever open at once. A backup made by `VACUUM INTO` keeps one until the
//!   file is deleted.
//!
//! Written for 64-bit Linux on x86-64 and `AArch64`. Elsewhere only the gate and the generation work (unix, untested), and
//! [`descriptors_conflict`] answers no.
#![allow(unsafe_code, reason = "replaces system calls of a C library, and handles raw descriptors and fork handlers")]

mod fork;
mod gate;

#[cfg(all(target_os = "linux", target_pointer_width = "64", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "linux/mod.rs"]
mod platform;

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "elsewhere.rs"]
mod platform;

#[cfg(all(
    test,
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod tests;

use std::io;
use std::path::Path;
use std::sync::OnceLock;

pub(crate) use fork::{generation, usable};
#[allow(unused_imports, reason = "`Gate` is named only by those who store one")]
pub(crate) use gate::{Gate, enter, fork_pending};

/// Replaces the system calls of our `SQLite` and registers the fork handlers, once.
///
/// Call it before the first `SQLite` open of the process: descriptors opened earlier keep process-owned locks.
pub(crate) fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    // The fork handlers come first, and the gate is held: a fork meanwhile waits until the table is complete.
    let _gate = enter();
    INSTALLED.get_or_init(|| {
        fork::register();
        platform::install();
    });
}

/// Whether two descriptors of this file, in this process, see each other's locks, tried on the file itself.
///
/// False means that the file system (9p, some FUSE, anything but Linux) gives no protection against another `SQLite` library
/// in this process.
///
/// # Errors
///
/// The file is missing or not writable, or its name is reserved.
pub(crate) fn descriptors_conflict(database: &Path) -> io::Result<bool> {
    if reserved_name(database) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the name ends like that of a WAL, journal or shared-memory file",
        ));
    }
    install();
    let _gate = enter();
    platform::descriptors_conflict(database)
}

/// Whether a descriptor of this process that our `SQLite` did not open refers to the same file; true if that cannot be told.
///
/// On anything but Linux our own descriptors count too: ask before opening the file.
pub(crate) fn held_by_others_here(database: &Path) -> bool {
    platform::held_by_others_here(database)
}

/// Whether a database of this name would be taken for one of the files that `SQLite` keeps beside a database.
pub(crate) fn reserved_name(database: &Path) -> bool {
    let name = database.as_os_str().as_encoded_bytes();
    is_unlocked_companion(name) || name.ends_with(b"-shm")
}

/// WAL, rollback journal and super-journal (`-mj` and nine hexadecimal digits): files that carry no locks.
fn is_unlocked_companion(path: &[u8]) -> bool {
    const SUPER_JOURNAL_SUFFIX: usize = "-mj".len() + 9;
    let super_journal = path
        .len()
        .checked_sub(SUPER_JOURNAL_SUFFIX)
        .and_then(|start| path[start..].strip_prefix(b"-mj"))
        .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    path.ends_with(b"-wal") || path.ends_with(b"-journal") || super_journal
}
