//! Opening a file: what is refused before it is touched, the settings of every connection, and the schema.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::failure::{self, Kind};
use super::filesystem::{self, Trust};
use super::gated::Gated;
use super::group::Writer;
use super::pause::Pause;
use super::{sharing, steps};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::options::{NetworkFiles, SqliteOptions, Synchronous};
use crate::store::sql;

/// The file that was opened, to notice when another one takes its name.
#[derive(Clone, Debug)]
pub(super) struct FileIdentity {
    path: PathBuf,
    #[cfg(unix)]
    device_and_inode: (u64, u64),
}

impl FileIdentity {
    fn of(path: &Path) -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let metadata = std::fs::metadata(path)?;
            Ok(Self { path: path.to_owned(), device_and_inode: (metadata.dev(), metadata.ino()) })
        }
        #[cfg(not(unix))]
        Ok(Self { path: path.to_owned() })
    }

    /// Jobs written to a file that was deleted or replaced would be lost with the last descriptor on it.
    pub(super) fn check(&self, target: &str) -> Result<()> {
        #[cfg(unix)]
        if !Self::of(&self.path).is_ok_and(|now| now.device_and_inode == self.device_and_inode) {
            return Err(Error::StoreFailed {
                target: target.to_owned(),
                problem:
                    "the file was deleted or replaced while it was open; nothing was changed. Put it back, or close \
                          the queue and open it again to use the new file"
                        .into(),
            });
        }
        Ok(())
    }
}

/// An opened file: the connection that writes, and how to open more that read.
pub(super) struct Opened {
    pub(super) writer: Writer,
    pub(super) file: FileIdentity,
    pub(super) target: String,
}

/// Open a file, and create the schema in one that has none. A schema that exists is never changed here.
pub(super) fn open(path: &Path, options: &SqliteOptions) -> Result<Opened> {
    let path = usable_path(path, options.network_files)?;
    let target = path.display().to_string();
    sharing::install();
    if !sharing::usable() {
        return Err(cannot_open(
            &path,
            "this process was forked while its parent was in the middle of a database call, so that SQLite cannot be used              here; start it anew (multiprocessing: the \"spawn\" method) instead of forking"
                .into(),
        ));
    }
    let connection = {
        let _gate = sharing::enter();
        connect(&path, OpenFlags::SQLITE_OPEN_CREATE)?
    };
    refuse_unshareable(&path)?;
    let deadline = Instant::now() + options.busy_timeout;
    let patiently = |step: &dyn Fn() -> rusqlite::Result<()>| -> Result<()> {
        let mut pause = Pause::default();
        loop {
            let gate = sharing::enter();
            let outcome = step();
            drop(gate);
            match outcome {
                Ok(()) => return Ok(()),
                Err(error) if failure::kind(&error) == Kind::Busy && Instant::now() < deadline => pause.sleep(),
                Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
                    return Err(cannot_open(&path, "it is not an SQLite database; name another file".into()));
                }
                Err(error) => return Err(failure::error(&target, &error, options.busy_timeout)),
            }
        }
    };
    patiently(&|| configure_writer(&connection, options.synchronous))?;
    patiently(&|| create_schema(&connection, options.clock.as_ref()))?;
    check_schema(&connection, &target)?;
    patiently(&|| steps::catch_up(&connection, options.clock.as_ref()))?;
    let file = FileIdentity::of(&path).map_err(|error| cannot_open(&path, error.to_string()))?;
    Ok(Opened { writer: Writer { connection, changed: Cell::new(None), others: Cell::new(0) }, file, target })
}

/// A connection that only reads. It never waits for the writer: that is what the write-ahead log is for.
/// The caller holds the gate.
pub(super) fn open_reader(target: &str, file: &FileIdentity) -> Result<Gated> {
    // Not created: where the file was deleted meanwhile, an empty one must not take its place.
    let connection = connect(Path::new(target), OpenFlags::empty())?;
    file.check(target)?;
    let failed = |error: rusqlite::Error| failure::error(target, &error, Duration::ZERO);
    connection.execute_batch("PRAGMA query_only = ON").map_err(failed)?;
    Ok(connection)
}

fn connect(path: &Path, create: OpenFlags) -> Result<Gated> {
    // No URI: its options could switch off locking (nolock, immutable) or the rules of `sharing` (vfs).
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| cannot_open(path, error.to_string()))?;
    let connection = Gated::new(connection);
    connection.set_prepared_statement_cache_capacity(64);
    // Plans must not hang on the values that happen to be bound: SQLite would prepare a statement anew for each of them, which
    // was a sixth of the time of a claim.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(|error| cannot_open(path, error.to_string()))?;
    // Waiting is done by our callers: in short steps, and outside the gate.
    connection.busy_timeout(Duration::ZERO).map_err(|error| cannot_open(path, error.to_string()))?;
    if connection.is_readonly("main").unwrap_or(false) {
        return Err(cannot_open(path, "the file is not writable; give this user the right to write it".into()));
    }
    Ok(connection)
}

/// Every setting is stated, because the defaults of the bundled library differ from the usual ones.
fn configure_writer(connection: &Connection, synchronous: Synchronous) -> rusqlite::Result<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(rusqlite::Error::InvalidParameterName(format!(
            "the file cannot use a write-ahead log (mode {mode})"
        )));
    }
    let synchronous = match synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA foreign_keys = OFF;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16384;
         PRAGMA journal_size_limit = 67108864;"
    ))
}

fn usable_path(path: &Path, network_files: NetworkFiles) -> Result<PathBuf> {
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(cannot_open(path, "a durable queue needs a file; name one".into()));
    }
    let absolute = std::path::absolute(path).map_err(|error| cannot_open(path, error.to_string()))?;
    let resolved = if let Ok(resolved) = absolute.canonicalize() {
        resolved
    } else {
        let (Some(folder), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(cannot_open(path, "it has no file name".into()));
        };
        let folder = folder
            .canonicalize()
            .map_err(|_| cannot_open(path, format!("there is no folder {}; create it first", folder.display())))?;
        folder.join(name)
    };
    if sharing::reserved_name(&resolved) {
        return Err(cannot_open(
            path,
            "SQLite gives such names to files that it keeps beside a database; choose another name".into(),
        ));
    }
    if resolved.is_dir() {
        return Err(cannot_open(path, "it is a folder; name a file in it".into()));
    }
    #[cfg(unix)]
    if let Ok(metadata) = std::fs::metadata(&resolved) {
        use std::os::unix::fs::MetadataExt;
        if metadata.nlink() > 1 {
            return Err(cannot_open(
                path,
                "it has a second name (a hard link). The log and the locks go by the name, so two names destroy the file; \
                 remove one of them"
                    .into(),
            ));
        }
    }
    if network_files == NetworkFiles::Refuse
        && let Some(kind) = filesystem::kind_of(&resolved)
    {
        match filesystem::trust(&kind) {
            Trust::Local => {}
            Trust::Unknown => log::warn!(
                "{}: the file system {kind:?} is not known to bandog; it must support file locks and shared memory mappings",
                resolved.display()
            ),
            Trust::Network => {
                return Err(cannot_open(
                    path,
                    format!(
                        "it lies on a network file system ({kind}), where locks and shared memory do not work and the file \
                         would be destroyed. Use a local disk or PostgreSQL, or pass allow_network_filesystem=True at your \
                         own risk"
                    ),
                ));
            }
        }
    }
    Ok(resolved)
}

/// Where two descriptors of one process do not conflict, another SQLite library in this process would hold the write lock
/// at the same time as this one. That it has the file open now can be seen; that it opens it later cannot.
fn refuse_unshareable(path: &Path) -> Result<()> {
    let _gate = sharing::enter();
    let conflict = sharing::descriptors_conflict(path).unwrap_or(false);
    if !conflict && sharing::held_by_others_here(path) {
        return Err(cannot_open(
            path,
            "another SQLite library in this process (Python's sqlite3, perhaps) has it open, and file locks do not work \
             between the two on this system. Close it there, or use a file of its own for the queue"
                .into(),
        ));
    }
    Ok(())
}

fn cannot_open(path: &Path, problem: String) -> Error {
    Error::CannotOpen { path: path.to_owned(), problem }
}

fn schema_exists(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(sql::sqlite::SCHEMA_EXISTS, [], |row| row.get(0))
}

fn create_schema(connection: &Connection, clock: &dyn Clock) -> rusqlite::Result<()> {
    if schema_exists(connection)? {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let create = || -> rusqlite::Result<()> {
        if schema_exists(connection)? {
            return Ok(()); // another process was faster
        }
        for (migration, version) in sql::sqlite::MIGRATIONS.iter().zip(1_i64..) {
            connection.execute_batch(migration)?;
            connection.execute(sql::sqlite::SCHEMA_APPLIED, [version, clock.now().wall])?;
        }
        let now = clock.now();
        connection.execute(sql::sqlite::CLOCK_START, rusqlite::params![clock.boot(), now.wall - now.uptime])?;
        Ok(())
    };
    finish(connection, create())
}

fn check_schema(connection: &Connection, target: &str) -> Result<()> {
    let _gate = sharing::enter();
    let newest = i64::try_from(sql::sqlite::MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found: i64 = connection
        .query_row(sql::sqlite::SCHEMA_VERSION, [], |row| row.get(0))
        .map_err(|error| failure::error(target, &error, Duration::ZERO))?;
    if found == newest {
        return Ok(());
    }
    let problem = if found > newest {
        format!(
            "its tables are of version {found}, and this bandog knows up to {newest}; nothing was changed. Use the newer \
             version of bandog that wrote them"
        )
    } else {
        format!(
            "its tables are of version {found}, and this bandog needs {newest}; nothing was changed. Stop all that use the \
             file and migrate it"
        )
    };
    Err(Error::SchemaMismatch { target: target.to_owned(), problem })
}

/// Commit what went well, and undo what did not.
pub(super) fn finish<T>(connection: &Connection, outcome: rusqlite::Result<T>) -> rusqlite::Result<T> {
    match outcome {
        Ok(value) => connection.execute_batch("COMMIT").map(|()| value),
        Err(error) => {
            connection.execute_batch("ROLLBACK")?;
            Err(error)
        }
    }
}
