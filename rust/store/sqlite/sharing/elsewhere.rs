//! Platforms without open-file-description locks, or where nobody tested them: nothing is replaced.
//!
//! Their `SQLite` locks as it always did, so another `SQLite` library in the process is not kept apart, and
//! [`descriptors_conflict`] says so. Untested.

use std::io;
use std::path::Path;

/// Stands for the lock of a registry that does not exist here.
pub(super) struct Guard;

impl Guard {
    /// The child of a fork keeps its inherited descriptors: closing one would drop nothing that it owns, and nobody
    /// knows them here.
    pub(super) fn abandon(&mut self) {}
}

pub(super) fn lock() -> Guard {
    Guard
}

pub(super) fn install() {}

#[allow(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
pub(super) fn descriptors_conflict(_database: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Compares the file with every descriptor of the process, our own ones included.
#[cfg(unix)]
pub(super) fn held_by_others_here(database: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let Ok(wanted) = std::fs::metadata(database) else {
        return false;
    };
    let Ok(descriptors) = std::fs::read_dir("/dev/fd") else {
        return true;
    };
    descriptors.flatten().any(|descriptor| {
        let number = descriptor.file_name().to_str().and_then(|name| name.parse().ok());
        number.is_some_and(|number: libc::c_int| {
            // SAFETY: an all-zero `stat` is a valid value, and the call fills it or fails.
            let mut found: libc::stat = unsafe { std::mem::zeroed() };
            // SAFETY: `found` is a valid place for the answer; any number may be asked about.
            let known = unsafe { libc::fstat(number, &raw mut found) } == 0;
            #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the types differ between systems")]
            let same = found.st_dev as u64 == wanted.dev() && found.st_ino as u64 == wanted.ino();
            known && same
        })
    })
}

#[cfg(not(unix))]
pub(super) fn held_by_others_here(_database: &Path) -> bool {
    false
}
