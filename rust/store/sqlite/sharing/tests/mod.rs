//! Tests with raw POSIX locks standing in for another `SQLite` library in the process.
//!
//! A raw lock is what such a library comes down to, and unlike the library it can be asked about single bytes. Tests that
//! fork, close standard streams or shut the gate run in a process of their own ([`isolated`]).

mod descriptors;
mod forks;
mod gates;
mod locks;
mod probes;

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::{enter, install};

/// `SQLite`'s lock bytes in the database file.
const RESERVED: i64 = 0x4000_0001;
/// The write lock of WAL mode, in the `-shm` file.
const WAL_WRITE: i64 = 120;
/// Held shared by every process that has the `-shm` file open.
const PRESENCE: i64 = 128;

/// Ends the loops of other threads also where this one panics: the scope would wait for them for ever.
struct SetWhenDropped<'flag>(&'flag std::sync::atomic::AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

struct Scratch {
    directory: TempDir,
}

impl Scratch {
    fn new() -> Self {
        install();
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    fn database(&self) -> PathBuf {
        self.directory.path().join("jobs.sqlite")
    }

    fn shared_memory(&self) -> PathBuf {
        self.directory.path().join("jobs.sqlite-shm")
    }

    /// Descriptors of this process on files of this test, deleted ones included.
    fn open_descriptors(&self) -> usize {
        let links = std::fs::read_dir("/proc/self/fd").expect("/proc").flatten();
        links
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .filter(|target| target.starts_with(self.directory.path()))
            .count()
    }
}

/// Opens with our `SQLite`, in the given journal mode, with a table `event(number)`.
fn connect(database: &Path, journal_mode: &str) -> Connection {
    let _gate = enter();
    let mut connection = Connection::open(database).expect("open");
    connection.busy_handler(Some(try_again)).expect("busy handler");
    let mode: String = connection
        .query_row(&format!("pragma journal_mode = {journal_mode}"), [], |row| row.get(0))
        .expect("journal mode");
    assert_eq!(mode, journal_mode);
    connection.execute_batch("create table if not exists event (number integer)").expect("create");
    connection
}

/// Short steps, for 10 seconds or more. `SQLite`'s own handler sleeps up to 100 ms: beside a tight loop of short
/// transactions in another process it was starved for more than 10 seconds.
fn try_again(count: i32) -> bool {
    std::thread::sleep(Duration::from_micros(200));
    count < 50_000
}

fn open_flags(database: &Path, flags: OpenFlags) -> Connection {
    let _gate = enter();
    Connection::open_with_flags(database, flags).expect("open")
}

fn run(connection: &Connection, sql: &str) {
    let _gate = enter();
    connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn is_busy(connection: &Connection, sql: &str) -> bool {
    let _gate = enter();
    connection.busy_timeout(Duration::ZERO).expect("busy timeout");
    match connection.execute_batch(sql) {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy), "{error}");
            true
        }
    }
}

fn count(connection: &Connection) -> i64 {
    let _gate = enter();
    connection.query_row("select count(*) from event", [], |row| row.get(0)).expect("count")
}

fn assert_intact(connection: &Connection) {
    let _gate = enter();
    let verdict: String = connection.query_row("pragma integrity_check", [], |row| row.get(0)).expect("check");
    assert_eq!(verdict, "ok");
}

fn disconnect(connection: Connection) {
    let _gate = enter();
    connection.close().expect("close");
}

/// Another library's descriptor of a file, with process-owned locks. Closing it is a real close.
struct Other {
    fd: RawFd,
}

impl Other {
    fn open(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_bytes()).expect("a path");
        // SAFETY: a C string that outlives the call.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        Self { fd }
    }

    /// Takes the write lock on one byte, as this process; false if someone else holds it.
    fn lock(&self, byte: i64) -> bool {
        self.request(libc::F_SETLK, libc::F_WRLCK, byte).is_some()
    }

    fn unlock(&self, byte: i64) {
        assert!(self.request(libc::F_SETLK, libc::F_UNLCK, byte).is_some());
    }

    /// Whether anyone who is not this process, as the kernel sees it, holds a lock on the byte: ours do.
    fn sees_lock(&self, byte: i64) -> bool {
        self.request(libc::F_GETLK, libc::F_WRLCK, byte).expect("F_GETLK") != libc::F_UNLCK
    }

    /// Whether the process-owned lock on this byte still exists, as another open file sees it.
    fn still_holds(&self, byte: i64) -> bool {
        self.request(libc::F_OFD_GETLK, libc::F_WRLCK, byte).expect("F_OFD_GETLK") != libc::F_UNLCK
    }

    fn request(&self, command: i32, kind: i32, byte: i64) -> Option<i32> {
        let mut request = libc::flock {
            l_type: i16::try_from(kind).expect("a lock type"),
            l_whence: 0,
            l_start: byte,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: the command reads and writes one `flock`.
        let result = unsafe { libc::fcntl(self.fd, command, &raw mut request) };
        (result == 0).then(|| i32::from(request.l_type))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // SAFETY: the number is this value's own.
        unsafe { libc::close(self.fd) };
    }
}

/// Runs `body` in a fresh process with only this test in it. `module` is the caller's `module_path!()`.
fn isolated(module: &str, test: &str, body: impl FnOnce()) {
    const VARIABLE: &str = "SHARING_ISOLATED_TEST";
    let name = format!("{}::{test}", module.split_once("::").expect("inside a crate").1);
    if std::env::var(VARIABLE).as_deref() == Ok(&name) {
        // SAFETY: ends a test that hangs; no memory is involved.
        unsafe { libc::alarm(120) };
        return body();
    }
    let program = std::env::current_exe().expect("the test program");
    let result = std::process::Command::new(program)
        .args([&name, "--exact", "--nocapture"])
        .env(VARIABLE, &name)
        .output()
        .expect("the test program runs");
    let output = format!("{}{}", String::from_utf8_lossy(&result.stdout), String::from_utf8_lossy(&result.stderr));
    assert!(result.status.success(), "{:?}\n{output}", result.status);
    assert!(output.contains("1 passed"), "the name matches one test\n{output}");
}
