//! Every descriptor that our `SQLite` opened: which file it belongs to, whether it is in use or parked, and which one of
//! a file's descriptors carries its locks.
//!
//! Invariants, for each tracked file (a database or a `-shm` file):
//! - Its canonical descriptor does not change and is not closed while any descriptor of the file is in use. So a lock call,
//!   made on behalf of one that is in use, may run outside the registry's lock.
//! - The canonical descriptor is writable if the file can be opened for writing at all: write locks need that, and the
//!   locks of two descriptors would conflict with each other. If the first open is read-only, a second, writable
//!   descriptor is opened beside it for this purpose.
//! - The entry goes when its last descriptor is really closed, and until then the kernel does not reuse the inode number.
//!
//! The lock is a leaf: whoever holds it waits for system calls only.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;

use super::super::is_unlocked_companion;
use super::descriptor::{self, FileId};

/// Files without open descriptors that one open looks at, to close those that were deleted. Bounds the cost of an open when
/// a process has used thousands of databases; every one gets its turn.
const REAPED_PER_OPEN: usize = 16;

static REGISTRY: Mutex<Registry> = Mutex::new(Registry::new());

/// The registry, locked.
pub(in super::super) type Guard = MutexGuard<'static, Registry>;

/// Locks the registry. Nothing in it panics half way, so a poisoned lock is as good as any.
pub(in super::super) fn lock() -> Guard {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(in super::super) struct Registry {
    /// Descriptors of files that may carry locks.
    tracked: BTreeMap<RawFd, FileId>,
    files: BTreeMap<FileId, File>,
    /// Everything else that `SQLite` has open (WAL, journals, temporary files, directories): closed in a forked child.
    plain: BTreeMap<RawFd, FileId>,
    /// Files that had no descriptor in use at some time, each at most once: to be looked at for deletion.
    idle: VecDeque<FileId>,
}

#[derive(Default)]
struct File {
    members: Vec<Member>,
    /// Carries all locks of the file.
    canonical: RawFd,
    /// Whether `idle` holds it.
    queued: bool,
}

#[derive(Clone, Copy)]
struct Member {
    fd: RawFd,
    writable: bool,
    /// In use by `SQLite`; otherwise parked.
    in_use: bool,
}

impl File {
    fn in_use(&self) -> bool {
        self.members.iter().any(|member| member.in_use)
    }

    fn is_writable(&self, fd: RawFd) -> bool {
        self.members.iter().any(|member| member.fd == fd && member.writable)
    }

    fn choose_canonical(&mut self) {
        let best = self.members.iter().max_by_key(|member| member.writable);
        self.canonical = best.map_or(-1, |member| member.fd);
    }
}

impl Registry {
    const fn new() -> Self {
        Self { tracked: BTreeMap::new(), files: BTreeMap::new(), plain: BTreeMap::new(), idle: VecDeque::new() }
    }

    /// Opens `path` as `open(2)` would, with a parked descriptor of the same file and access if there is one.
    pub(super) fn open(&mut self, path: &CStr, flags: c_int, mode: c_int) -> io::Result<RawFd> {
        // Temporary files and new super-journals are opened exclusively and never locked.
        let lockable = flags & (libc::O_EXCL | libc::O_DIRECTORY) == 0 && !is_unlocked_companion(path.to_bytes());
        if lockable {
            self.reap();
            descriptor::occupy_standard_streams();
            if let Some(reused) = self.reuse(path, flags) {
                return reused;
            }
        }
        let fd = descriptor::open(path, flags, mode)?;
        // A record under this number is stale: someone closed our descriptor by number.
        self.forget(fd);
        let Ok(status) = descriptor::status(fd) else {
            return Ok(fd);
        };
        let id = FileId::of(&status);
        if !lockable || !descriptor::is_regular(&status) || fd <= libc::STDERR_FILENO {
            self.plain.insert(fd, id);
            return Ok(fd);
        }
        self.enrol(fd, id, is_writable(flags));
        self.ensure_writable_member(fd, id);
        self.begin_use(fd, id)
    }

    /// Closes as `close(2)` would, as far as `SQLite` and other processes can see. A tracked descriptor is parked.
    pub(super) fn close(&mut self, fd: RawFd) -> io::Result<()> {
        let Some(&id) = self.tracked.get(&fd) else {
            self.plain.remove(&fd);
            return descriptor::close(fd);
        };
        let Some(file) = self.files.get_mut(&id) else {
            return Ok(());
        };
        for member in file.members.iter_mut().filter(|member| member.fd == fd) {
            member.in_use = false;
        }
        if !file.in_use() {
            // SQLite leaves its presence byte in the shm file to the close. A failure leaves nothing to do: the descriptor
            // was closed by number, and its locks went with it.
            let _ = descriptor::lock(file.canonical, libc::F_OFD_SETLK, &mut descriptor::range(libc::F_UNLCK, 0, 0));
            if !self.discard_if_deleted(id) {
                self.await_deletion(id);
            }
        }
        Ok(())
    }

    /// The descriptor that carries the locks of the file behind `fd`; `None` if that file is not tracked.
    pub(super) fn canonical(&self, fd: RawFd) -> Option<RawFd> {
        let id = self.tracked.get(&fd)?;
        self.files.get(id).map(|file| file.canonical)
    }

    /// Whether our `SQLite` opened `fd`.
    pub(super) fn knows(&self, fd: RawFd) -> bool {
        self.tracked.contains_key(&fd) || self.plain.contains_key(&fd)
    }

    /// In a forked child: closes all that was inherited, unlocks nothing, and starts anew.
    ///
    /// The maps are leaked, because freeing memory is not safe here.
    pub(in super::super) fn abandon(&mut self) {
        for (&fd, &id) in self.tracked.iter().chain(&self.plain) {
            if descriptor::refers_to(fd, id) {
                let _ = descriptor::close(fd);
            }
        }
        std::mem::forget(std::mem::replace(self, Self::new()));
    }

    fn reuse(&mut self, path: &CStr, flags: c_int) -> Option<io::Result<RawFd>> {
        let writable = is_writable(flags);
        let status = descriptor::status_of(path, flags & libc::O_NOFOLLOW == 0).ok()?;
        if !descriptor::is_regular(&status) {
            return None;
        }
        let id = FileId::of(&status);
        loop {
            let members = &self.files.get(&id)?.members;
            let fd = members.iter().find(|member| !member.in_use && member.writable == writable)?.fd;
            if descriptor::refers_to(fd, id) {
                // Permissions may have changed since it was opened: then let the real open fail.
                return descriptor::may_access(path, writable).then(|| self.begin_use(fd, id));
            }
            self.forget(fd);
        }
    }

    fn enrol(&mut self, fd: RawFd, id: FileId, writable: bool) {
        self.tracked.insert(fd, id);
        self.files.entry(id).or_default().members.push(Member { fd, writable, in_use: false });
    }

    fn begin_use(&mut self, fd: RawFd, id: FileId) -> io::Result<RawFd> {
        let Some(file) = self.files.get_mut(&id) else {
            return Ok(fd);
        };
        if !file.in_use() {
            file.choose_canonical();
        }
        // The file became writable while it was in use read-only. The canonical descriptor cannot change now; SQLite opens
        // read-only instead, and the next first open will be served.
        if file.is_writable(fd) && !file.is_writable(file.canonical) {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        for member in file.members.iter_mut().filter(|member| member.fd == fd) {
            member.in_use = true;
        }
        Ok(fd)
    }

    /// Opens a descriptor for the locks if the file has none that is writable, and none in use.
    fn ensure_writable_member(&mut self, fd: RawFd, id: FileId) {
        let settled = |file: &File| file.in_use() || file.members.iter().any(|member| member.writable);
        if self.files.get(&id).is_none_or(settled) {
            return;
        }
        // Not permitted: then nobody here can ask for write locks either.
        let Ok(writable) = descriptor::reopen_writable(fd) else {
            return;
        };
        self.forget(writable);
        let Ok(status) = descriptor::status(writable) else {
            return;
        };
        // On an overlay file system this may be the copy that the open just made: another file, parked under its own name.
        let found = FileId::of(&status);
        self.enrol(writable, found, true);
        if found != id {
            self.await_deletion(found);
        }
    }

    /// Drops the record of a descriptor that someone else closed.
    fn forget(&mut self, fd: RawFd) {
        self.plain.remove(&fd);
        let Some(id) = self.tracked.remove(&fd) else {
            return;
        };
        let Some(file) = self.files.get_mut(&id) else {
            return;
        };
        file.members.retain(|member| member.fd != fd);
        if file.members.is_empty() {
            self.files.remove(&id);
        } else if file.canonical == fd {
            file.choose_canonical();
        }
    }

    fn await_deletion(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(&id)
            && !file.queued
        {
            file.queued = true;
            self.idle.push_back(id);
        }
    }

    /// Closes the parked descriptors of files that were deleted since, so that they do not hold their disk space for ever.
    fn reap(&mut self) {
        for _ in 0..self.idle.len().min(REAPED_PER_OPEN) {
            let Some(id) = self.idle.pop_front() else {
                return;
            };
            let Some(file) = self.files.get_mut(&id) else {
                continue;
            };
            file.queued = false;
            if !file.in_use() && !self.discard_if_deleted(id) {
                self.await_deletion(id);
            }
        }
    }

    /// Really closes the descriptors of a file that is not in use and has no name any more.
    fn discard_if_deleted(&mut self, id: FileId) -> bool {
        let Some(file) = self.files.get(&id) else {
            return true;
        };
        let members: Vec<RawFd> = file.members.iter().map(|member| member.fd).collect();
        for fd in members {
            match descriptor::status(fd) {
                Ok(status) if FileId::of(&status) != id => self.forget(fd),
                Ok(status) if status.st_nlink == 0 => {
                    self.forget(fd);
                    let _ = descriptor::close(fd);
                }
                Ok(_) => return false,
                Err(_) => self.forget(fd),
            }
        }
        true
    }
}

fn is_writable(flags: c_int) -> bool {
    flags & libc::O_ACCMODE == libc::O_RDWR
}
