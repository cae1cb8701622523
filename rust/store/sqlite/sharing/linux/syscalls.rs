//! The functions that our `SQLite` calls in place of the system's: thin shells around the registry.
//!
//! `SQLite` finds them through the table of its unix VFS, which all unix VFSes share. They keep the contract of the call
//! that they replace, `errno` included. A panic in one of them aborts the process.

use std::ffi::{CStr, c_char, c_void};
use std::io;
use std::mem::transmute;

use libc::{c_int, off_t, size_t};
use rusqlite::ffi::{SQLITE_OK, sqlite3_vfs_find};

use super::super::fork::generation;
use super::registry;

type AnyFunction = unsafe extern "C" fn();

/// Puts the functions below into the table of the unix VFS.
pub(in super::super) fn install() {
    // SAFETY: each pointer is cast back by SQLite to the type that it expects under this name, and each function below has
    // that type ("open" is called through SQLite's own `int(const char*, int, int)`). For "fcntl" SQLite makes a
    // variadic call, which stable Rust cannot define. On Linux x86-64 and AArch64 the calling convention passes the first
    // three integer or pointer arguments of a variadic call in the same registers as those of a fixed one, and the callee
    // may ignore what else a variadic call sets up (AL on x86-64).
    let replacements: [(&CStr, AnyFunction); 6] = unsafe {
        [
            (c"open", transmute::<unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int, AnyFunction>(open)),
            (c"close", transmute::<unsafe extern "C" fn(c_int) -> c_int, AnyFunction>(close)),
            (c"stat", transmute::<unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int, AnyFunction>(stat)),
            (c"fstat", transmute::<unsafe extern "C" fn(c_int, *mut libc::stat) -> c_int, AnyFunction>(fstat)),
            (c"mmap", transmute::<MapFunction, AnyFunction>(mmap)),
            (c"fcntl", transmute::<unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int, AnyFunction>(fcntl)),
        ]
    };
    // SAFETY: this initialises the library if need be, and finds a VFS that lives as long as it.
    let vfs = unsafe { sqlite3_vfs_find(c"unix".as_ptr()) };
    // SAFETY: the pointer is null or a valid VFS.
    let set = unsafe { vfs.as_ref() }.and_then(|vfs| vfs.xSetSystemCall);
    let set = set.expect("the bundled SQLite has a unix VFS with replaceable system calls");
    for (name, replacement) in replacements {
        // SAFETY: the VFS, the name and the function all live for the rest of the process.
        let outcome = unsafe { set(vfs, name.as_ptr(), Some(replacement)) };
        // Half of them would be worse than none, and the bundled SQLite has all; checked by every test that opens a file.
        assert_eq!(outcome, SQLITE_OK, "SQLite has no system call {name:?} to replace");
    }
}

type MapFunction = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void;

/// Parked descriptors are used again, see [`registry`].
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: SQLite passes a C string.
    let path = unsafe { CStr::from_ptr(path) };
    let result = registry::lock().open(path, flags, mode);
    answer(result)
}

unsafe extern "C" fn close(fd: c_int) -> c_int {
    let result = registry::lock().close(fd);
    answer(result.map(|()| 0))
}

/// Lock commands go to the canonical descriptor, in their open-file-description form; all else passes.
unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    let by_description = match command {
        libc::F_SETLK => Some(libc::F_OFD_SETLK),
        libc::F_SETLKW => Some(libc::F_OFD_SETLKW),
        libc::F_GETLK => Some(libc::F_OFD_GETLK),
        _ => None,
    };
    let canonical = by_description.and_then(|command| Some((registry::lock().canonical(fd)?, command)));
    let Some((canonical, by_description)) = canonical else {
        // SAFETY: passes on what SQLite passed to us.
        return unsafe { libc::fcntl(fd, command, argument) };
    };
    let request = argument.cast::<libc::flock>();
    // SAFETY: these commands take a `flock`, and on 64-bit Linux there is one layout of it. The kernel demands process id 0.
    unsafe { (*request).l_pid = 0 };
    // SAFETY: as above. The canonical descriptor stays open while `fd`, which SQLite is using, is open.
    let result = unsafe { libc::fcntl(canonical, by_description, request) };
    if result == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        // A kernel without such locks (before 3.15, some sandboxes): ordinary ones, and `descriptors_conflict` says no.
        // SAFETY: as above.
        return unsafe { libc::fcntl(canonical, command, request) };
    }
    result
}

unsafe extern "C" fn stat(path: *const c_char, status: *mut libc::stat) -> c_int {
    // SAFETY: passes on what SQLite passed to us.
    let result = unsafe { libc::stat(path, status) };
    // SAFETY: on success the status was filled.
    unsafe { mark_generation(result, status) }
}

unsafe extern "C" fn fstat(fd: c_int, status: *mut libc::stat) -> c_int {
    // SAFETY: passes on what SQLite passed to us.
    let result = unsafe { libc::fstat(fd, status) };
    // SAFETY: on success the status was filled.
    unsafe { mark_generation(result, status) }
}

/// Maps without passing the mapping on to a forked child: it would hold the open file, and its locks, beyond `close`.
unsafe extern "C" fn mmap(
    place: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: passes on what SQLite passed to us.
    let mapping = unsafe { libc::mmap(place, length, protection, flags, fd, offset) };
    if mapping != libc::MAP_FAILED {
        // SAFETY: the range was just mapped, for SQLite alone, and this changes nothing in this process.
        unsafe { libc::madvise(mapping, length, libc::MADV_DONTFORK) };
    }
    mapping
}

/// Makes the device number differ between generations, and keeps it as it is in the original process.
///
/// `SQLite` keeps a list of the files that it has open, by device and inode, with their lock counts and shared memory. A
/// child inherits its parent's entries and must never find them. It uses the number for nothing else.
///
/// # Safety
///
/// If `result` is 0, `status` points to a valid status.
unsafe fn mark_generation(result: c_int, status: *mut libc::stat) -> c_int {
    // An odd factor maps each generation to another number; this one (2^64 divided by the golden ratio) changes all bits.
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    if result == 0 {
        // SAFETY: by contract.
        unsafe { (*status).st_dev ^= generation().wrapping_mul(SPREAD) };
    }
    result
}

/// The C form of a result: -1 and `errno` for an error.
fn answer(result: io::Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| {
        // SAFETY: the location of this thread's errno is always valid.
        unsafe { *libc::__errno_location() = error.raw_os_error().unwrap_or(libc::EIO) };
        -1
    })
}
