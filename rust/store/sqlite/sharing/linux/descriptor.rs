//! Safe wrappers of the few system calls on raw descriptors, so that the rest of the module can be read without them.
//!
//! Descriptors are plain numbers here: `SQLite` hands them around, and an owning type would close them.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use libc::{c_int, c_short, off_t};

/// What names a file for as long as a descriptor of it is open. Its numbers are reused only after the last close.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId {
    device: libc::dev_t,
    inode: libc::ino_t,
}

impl FileId {
    pub(super) fn of(status: &libc::stat) -> Self {
        Self { device: status.st_dev, inode: status.st_ino }
    }
}

pub(super) fn is_regular(status: &libc::stat) -> bool {
    status.st_mode & libc::S_IFMT == libc::S_IFREG
}

pub(super) fn open(path: &CStr, flags: c_int, mode: c_int) -> io::Result<RawFd> {
    // SAFETY: `path` is a C string that outlives the call; the mode is read only if the flags create a file.
    check(unsafe { libc::open(path.as_ptr(), flags, mode) })
}

/// Another open file description of the file behind `fd`, with write access, even if its name is gone or changed.
pub(super) fn reopen_writable(fd: RawFd) -> io::Result<RawFd> {
    let path = CString::new(format!("/proc/self/fd/{fd}"))?;
    open(&path, libc::O_RDWR | libc::O_CLOEXEC, 0)
}

pub(super) fn close(fd: RawFd) -> io::Result<()> {
    // SAFETY: the caller decides that nobody uses this number any more.
    check(unsafe { libc::close(fd) }).map(drop)
}

pub(super) fn status(fd: RawFd) -> io::Result<libc::stat> {
    let mut answer = MaybeUninit::uninit();
    // SAFETY: `answer` has room for the result; any number may be asked about.
    check(unsafe { libc::fstat(fd, answer.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled the answer.
    Ok(unsafe { answer.assume_init() })
}

/// The status of what `path` names; of a symbolic link itself unless `follow`.
pub(super) fn status_of(path: &CStr, follow: bool) -> io::Result<libc::stat> {
    let mut answer = MaybeUninit::uninit();
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: `path` is a C string and `answer` has room for the result; both outlive the call.
    check(unsafe { libc::fstatat(libc::AT_FDCWD, path.as_ptr(), answer.as_mut_ptr(), flags) })?;
    // SAFETY: the call succeeded, so it filled the answer.
    Ok(unsafe { answer.assume_init() })
}

/// Whether `fd` still is a descriptor of `file`. It is not when someone closed it by number and the number was reused.
pub(super) fn refers_to(fd: RawFd, file: FileId) -> bool {
    status(fd).is_ok_and(|status| FileId::of(&status) == file)
}

/// Whether the effective user may open `path` so, now.
pub(super) fn may_access(path: &CStr, writable: bool) -> bool {
    let mode = if writable { libc::R_OK | libc::W_OK } else { libc::R_OK };
    // SAFETY: `path` is a C string that outlives the call.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) == 0 }
}

/// A lock request for `length` bytes from `start` (0: to the end of the file, however long it grows).
pub(super) fn range(kind: c_int, start: off_t, length: off_t) -> libc::flock {
    #[allow(clippy::cast_possible_truncation, reason = "the constants are 0, 1 and 2, and SEEK_SET is 0")]
    libc::flock {
        l_type: kind as c_short,
        l_whence: libc::SEEK_SET as c_short,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

/// Carries out a lock command; the answer of the `GETLK` forms is left in `request`.
pub(super) fn lock(fd: RawFd, command: c_int, request: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the lock commands read and write one `flock`, which outlives the call.
    check(unsafe { libc::fcntl(fd, command, std::ptr::from_mut(request)) }).map(drop)
}

/// Fills descriptors 0 to 2 if they are closed, as in a daemon.
///
/// `SQLite` refuses to keep a database there, because a stray `printf` would write into it; it closes the number and opens
/// again. That close would be a real one, on a file whose descriptors must not be closed.
pub(super) fn occupy_standard_streams() {
    for stream in 0..=2 {
        // SAFETY: asks for the flags of a number that may be closed; no memory is involved.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            // The lowest free number is taken; it stays open for the life of the process, as in `SQLite`'s own remedy.
            let _ = open(c"/dev/null", libc::O_RDWR, 0);
        }
    }
}

fn check(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
