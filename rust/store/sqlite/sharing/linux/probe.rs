//! Asks the file itself whether locks work here as the module needs them, and who else in the process has it open.
//!
//! Every descriptor is opened and parked through the registry: a real close would drop another library's locks. The byte
//! that is locked lies far beyond `SQLite`'s own (0x40000000 and 512 more) and beyond any file's end, and differs
//! between processes and calls.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use libc::{c_int, off_t};

use super::descriptor::{self, FileId, range};
use super::registry;

/// `SQLite` unlocks whole files: another library may do so to the probe's lock between two steps, which looks like no
/// conflict. Several tries in a row are not hit by that.
const ATTEMPTS: usize = 4;

/// Whether an open-file-description lock is seen by another descriptor and by a POSIX request, and sees a POSIX lock.
pub(in super::super) fn descriptors_conflict(database: &Path) -> io::Result<bool> {
    let path = CString::new(database.as_os_str().as_bytes())?;
    for _ in 0..ATTEMPTS {
        match attempt(&path) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            // The kernel or the file system knows no such locks.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOLCK | libc::EOPNOTSUPP)) => {}
            // The byte is locked by someone: the next try takes another.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn attempt(path: &CStr) -> io::Result<bool> {
    let (first, second) = (Borrowed::open(path)?, Borrowed::open(path)?);
    // Not the canonical one: SQLite drops all of its locks now and then.
    let canonical = registry::lock().canonical(first.0) == Some(first.0);
    let (holder, observer) = if canonical { (&second, &first) } else { (&first, &second) };
    let byte = next_byte();

    let ours = Locked::take(holder.0, libc::F_OFD_SETLK, byte)?;
    let seen_by_ours = is_locked(observer.0, libc::F_OFD_GETLK, byte)?;
    let seen_by_theirs = is_locked(observer.0, libc::F_GETLK, byte)?;
    drop(ours);

    let _theirs = Locked::take(observer.0, libc::F_SETLK, byte)?;
    let theirs_seen = is_locked(holder.0, libc::F_OFD_GETLK, byte)?;
    Ok(seen_by_ours && seen_by_theirs && theirs_seen)
}

/// A byte that no other probe uses now: 2^46, plus 2^20 for each process id, plus a counter.
fn next_byte() -> off_t {
    static COUNTER: AtomicI64 = AtomicI64::new(0);
    let call = COUNTER.fetch_add(1, Ordering::Relaxed) & 0xF_FFFF;
    (1 << 46) + (i64::from(std::process::id()) << 20) + call
}

fn is_locked(fd: RawFd, command: c_int, byte: off_t) -> io::Result<bool> {
    let mut request = range(libc::F_WRLCK, byte, 1);
    descriptor::lock(fd, command, &mut request)?;
    Ok(c_int::from(request.l_type) != libc::F_UNLCK)
}

/// A descriptor from the registry, parked when dropped.
struct Borrowed(RawFd);

impl Borrowed {
    fn open(path: &CStr) -> io::Result<Self> {
        registry::lock().open(path, libc::O_RDWR | libc::O_CLOEXEC, 0).map(Self)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let _ = registry::lock().close(self.0);
    }
}

/// One locked byte, unlocked when dropped.
struct Locked {
    fd: RawFd,
    command: c_int,
    byte: off_t,
}

impl Locked {
    fn take(fd: RawFd, command: c_int, byte: off_t) -> io::Result<Self> {
        descriptor::lock(fd, command, &mut range(libc::F_WRLCK, byte, 1))?;
        Ok(Self { fd, command, byte })
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = descriptor::lock(self.fd, self.command, &mut range(libc::F_UNLCK, self.byte, 1));
    }
}

/// Compares the file with every descriptor of the process that our `SQLite` did not open.
pub(in super::super) fn held_by_others_here(database: &Path) -> bool {
    let Ok(path) = CString::new(database.as_os_str().as_bytes()) else {
        return false;
    };
    let Ok(wanted) = descriptor::status_of(&path, true) else {
        // There is no such file, so nobody holds it.
        return false;
    };
    let wanted = FileId::of(&wanted);
    // Held throughout: a descriptor that our SQLite is just opening is known or does not exist yet.
    let registry = registry::lock();
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd")) else {
        return true;
    };
    descriptors
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .any(|fd: RawFd| !registry.knows(fd) && descriptor::refers_to(fd, wanted))
}
