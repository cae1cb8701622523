//! What can go wrong with a statement, told apart by what may be done about it.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::error::Error;

/// Why a transaction did not come to its end.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// A statement was not prepared in this session, or no longer fits: nothing was changed.
    Unprepared,
    /// A row stayed locked, or two transactions were in each other's way: nothing was changed, and it may be tried again.
    Busy,
    /// The server takes no writes, or no longer: nothing was changed.
    ReadOnly(String),
    /// The link broke, or the server went away: whether it was carried out is not known.
    Lost(String),
    /// The server did not answer in time: whether it was carried out is not known.
    Late,
    /// The server refused: nothing was changed, and trying again changes nothing about that.
    Refused(Refusal),
}

/// A refusal, by its remedy.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// No room on the server's disk.
    Full,
    /// The tables are not what this version expects.
    Schema(String),
    /// The role may not do that, in the server's words.
    Denied(String),
    /// Anything else, in the server's words.
    Failed(String),
    /// An error of the engine's own.
    Own(Error),
}

impl Fault {
    /// Data that this version does not know.
    pub(super) fn broken(problem: String) -> Self {
        Self::Refused(Refusal::Failed(problem))
    }

    /// An error of the engine's own.
    pub(super) fn own(error: Error) -> Self {
        Self::Refused(Refusal::Own(error))
    }

    /// The driver's error.
    pub(super) fn from_driver(error: &tokio_postgres::Error) -> Self {
        let Some(database) = error.as_db_error() else {
            let io = error.source().is_some_and(<dyn StdError>::is::<std::io::Error>);
            return if error.is_closed() || io { Self::Lost(describe(error)) } else { Self::broken(describe(error)) };
        };
        let code = database.code();
        let message = database.message().to_owned();
        match code {
            code if *code == SqlState::LOCK_NOT_AVAILABLE
                || *code == SqlState::T_R_DEADLOCK_DETECTED
                || *code == SqlState::T_R_SERIALIZATION_FAILURE =>
            {
                Self::Busy
            }
            code if *code == SqlState::INVALID_SQL_STATEMENT_NAME
                || *code == SqlState::DUPLICATE_PSTATEMENT
                || *code == SqlState::IN_FAILED_SQL_TRANSACTION
                || (*code == SqlState::FEATURE_NOT_SUPPORTED && message.contains("cached plan")) =>
            {
                Self::Unprepared
            }
            code if *code == SqlState::QUERY_CANCELED => Self::Late,
            code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly(message),
            code if *code == SqlState::TOO_MANY_CONNECTIONS
                || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                || code.code().starts_with("57P")
                || code.code().starts_with("08") =>
            {
                Self::Lost(message)
            }
            code if *code == SqlState::DISK_FULL => Self::Refused(Refusal::Full),
            code if *code == SqlState::UNDEFINED_TABLE
                || *code == SqlState::UNDEFINED_COLUMN
                || *code == SqlState::UNDEFINED_FUNCTION
                || *code == SqlState::INVALID_SCHEMA_NAME =>
            {
                Self::Refused(Refusal::Schema(message))
            }
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => Self::Refused(Refusal::Denied(message)),
            _ => Self::broken(message),
        }
    }

    /// The driver's error, on the way to a connection. A server that is not up yet, or full, may be tried again.
    pub(super) fn from_connecting(error: &tokio_postgres::Error) -> Self {
        let problem = describe(error);
        match error.as_db_error().map(|database| database.code().code()) {
            Some(code) if code.starts_with("28") || code.starts_with("3D") || code.starts_with("42") => {
                Self::broken(problem)
            }
            _ => Self::Lost(problem),
        }
    }

    /// What went wrong on the way to a connection, in words.
    pub(super) fn problem(self) -> String {
        match self {
            Self::Lost(problem)
            | Self::ReadOnly(problem)
            | Self::Refused(Refusal::Failed(problem) | Refusal::Schema(problem) | Refusal::Denied(problem)) => problem,
            Self::Refused(Refusal::Full) => "no room on the server's disk".into(),
            Self::Refused(Refusal::Own(error)) => error.to_string(),
            Self::Busy | Self::Unprepared => "the server is busy".into(),
            Self::Late => "no answer in time".into(),
        }
    }

    /// What the caller is told. `waited` is how long the call has taken.
    pub(super) fn error(self, target: &str, waited: Duration) -> Error {
        let target = target.to_owned();
        match self {
            Self::Busy | Self::Unprepared => {
                Error::StoreBusy { target, waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX) }
            }
            Self::Lost(problem) | Self::ReadOnly(problem) => Error::StoreFailed {
                target,
                problem: format!("the connection was lost ({problem}); whether the call took effect is not known"),
            },
            Self::Late => Error::StoreFailed {
                target,
                problem: format!(
                    "no answer within {:.1} s; whether the call took effect is not known",
                    waited.as_secs_f64()
                ),
            },
            Self::Refused(Refusal::Full) => Error::StorageFull { target },
            Self::Refused(Refusal::Schema(message)) => Error::SchemaMismatch {
                target,
                problem: format!("{message}: the tables are not those of this version; run `bandog migrate`"),
            },
            // While opening and migrating: later there is more to say, see `access`.
            Self::Refused(Refusal::Denied(message)) => Error::StoreFailed {
                target,
                problem: format!("{message}; nothing was changed. Do this as the role that owns the schema"),
            },
            Self::Refused(Refusal::Failed(problem)) => Error::StoreFailed { target, problem },
            Self::Refused(Refusal::Own(error)) => error,
        }
    }
}

/// An error with its causes, on one line.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    let mut text = match error.as_db_error() {
        Some(database) => return database.message().to_owned(),
        None => error.to_string(),
    };
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}

/// The error of opening.
pub(super) fn cannot_open(target: &str, problem: impl Into<String>) -> Error {
    Error::CannotOpen { path: PathBuf::from(target), problem: problem.into() }
}
