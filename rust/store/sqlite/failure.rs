//! What SQLite's result codes mean to a caller.

use std::time::Duration;

use rusqlite::ErrorCode;

use crate::error::Error;

/// What a failed statement leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Another connection holds the lock; nothing has happened.
    Busy,
    /// The request failed, and can be rolled back alone.
    Request,
}

/// Whether an error is only a matter of waiting.
pub(super) fn kind(error: &rusqlite::Error) -> Kind {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Kind::Busy,
        _ => Kind::Request,
    }
}

/// The error that the caller sees.
pub(super) fn error(target: &str, error: &rusqlite::Error, waited: Duration) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => busy(target, waited),
        Some(ErrorCode::DiskFull) => Error::StorageFull { target: target.to_owned() },
        _ => Error::StoreFailed { target: target.to_owned(), problem: error.to_string() },
    }
}

/// The write lock could not be had in time.
pub(super) fn busy(target: &str, waited: Duration) -> Error {
    Error::StoreBusy { target: target.to_owned(), waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX) }
}
