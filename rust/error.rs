//! One error enum for the whole engine; `py/error.rs` maps each variant to one class of `bandog/errors.py`.
//!
//! A message says what happened, to which job or file, and what to do. Connection secrets never enter a variant.

use std::path::PathBuf;

/// What the engine returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong, one variant per remedy.
///
/// `Clone`, because one failed transaction answers every request of its group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of a job, or an argument of a call, that no store may accept.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field or argument, as the caller spells it.
        field: &'static str,
        /// What is wrong and what is allowed.
        problem: String,
    },

    /// A payload, result or evidence that is not storable JSON.
    #[error("{field} at {path}: {problem}")]
    NotJson {
        /// `payload`, `result` or `evidence`.
        field: &'static str,
        /// Where the offending value stands, as in `$.items[3].price`.
        path: String,
        /// What is wrong and what is allowed.
        problem: String,
    },

    /// The same `job_id` with other content.
    #[error(
        "job {job_id:?} is already stored with another {difference}; nothing was changed. \
         Use a new job_id for different work"
    )]
    Conflict {
        /// The contested id.
        job_id: String,
        /// The first fields that differ, as in `payload, priority`.
        difference: String,
    },

    /// No job of that id (never admitted, or purged).
    #[error("there is no job {job_id:?}: it was never admitted, or it has been purged")]
    JobNotFound {
        /// The id that was looked up.
        job_id: String,
    },

    /// The claim has ended: its lease expired, another claim replaced it, or the job was settled.
    #[error(
        "the claim on job {job_id:?} no longer holds: its lease expired or another claim replaced it; \
         nothing was changed. Claim the job again to work on it"
    )]
    StaleClaim {
        /// The job that the claim was for.
        job_id: String,
    },

    /// Another connection kept the write lock for the whole timeout.
    #[error(
        "{target} stayed locked by another writer for {waited_ms} ms; nothing was changed. Try again; if this thread \
         holds an open transaction on the same file, commit it first or pass it as connection="
    )]
    StoreBusy {
        /// The file or server, without secrets.
        target: String,
        /// How long the call waited, in milliseconds.
        waited_ms: u64,
    },

    /// No room left for a write.
    #[error("{target} has no room left; nothing was changed. Free some space and try again")]
    StorageFull {
        /// The file or server, without secrets.
        target: String,
    },

    /// The database refused or failed; the transaction was rolled back.
    #[error("{target}: {problem}")]
    StoreFailed {
        /// The file or server, without secrets.
        target: String,
        /// The database's own words.
        problem: String,
    },

    /// The file cannot be used as a store: a directory, a network file system, a hard link, not a database, …
    #[error("cannot open {}: {problem}", path.display())]
    CannotOpen {
        /// The file as the caller named it.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },

    /// The schema is absent, older or newer than this version of bandog.
    #[error("{target}: {problem}")]
    SchemaMismatch {
        /// The file or server, without secrets.
        target: String,
        /// What was found, and the remedy.
        problem: String,
    },

    /// Another runtime is at work on the file, and the two do not go together.
    #[error("{target}: {problem}")]
    RuntimeConflict {
        /// The file, without secrets.
        target: String,
        /// Who is there, and what to do.
        problem: String,
    },

    /// The handle was closed.
    #[error("this queue is closed; open it again with bandog.connect()")]
    Closed,

    /// The handle was opened before a fork and used in the child.
    #[error(
        "this queue was opened in process {opened_by} and cannot be used in its forked child; \
         call bandog.connect() again in the child"
    )]
    Forked {
        /// The process that opened the handle.
        opened_by: u32,
    },
}
