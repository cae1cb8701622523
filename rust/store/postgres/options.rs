//! Settings of a PostgreSQL store, with their defaults and units.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};

/// The name of the schema that holds the tables, where none is given.
pub const DEFAULT_SCHEMA: &str = "bandog";

/// The settings of a PostgreSQL store.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// The schema that holds the tables.
    pub schema: Schema,
    /// How long a call waits for rows that another transaction holds locked.
    pub busy_timeout: Duration,
    /// How long a call waits for the server, whatever the reason. Claims, renewals and settlements wait for half a lease
    /// where that is shorter.
    pub call_timeout: Duration,
    /// The clock of this process, on which it gives up claims whose renewals do not land. All times that are stored are the
    /// server's.
    pub clock: Arc<dyn Clock>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: Schema::default(),
            busy_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(30),
            clock: Arc::new(SystemClock),
        }
    }
}

/// The name of a schema that PostgreSQL would accept.
#[derive(Clone, PartialEq, Eq)]
pub struct Schema(String);

impl Schema {
    /// The longest name that the server does not cut, in bytes.
    const LONGEST: usize = 63;

    /// Check a name.
    ///
    /// # Errors
    /// `Invalid` with what is wrong.
    pub fn new(name: &str) -> Result<Self> {
        let invalid = |problem: &str| Err(Error::Invalid { field: "schema", problem: problem.into() });
        if name.is_empty() {
            return invalid("must not be empty");
        }
        if name.len() > Self::LONGEST {
            return invalid("must have at most 63 bytes: PostgreSQL would cut it");
        }
        if name.chars().any(char::is_control) {
            return invalid("must not contain control characters");
        }
        if name.starts_with("pg_") || name == "information_schema" {
            return invalid("must not be one of PostgreSQL's own");
        }
        if name.contains('$') {
            // The migrations quote it between dollars too.
            return invalid("must not contain a dollar sign");
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As it stands in SQL. Its own name goes unquoted, so that statements read as they are written.
    #[must_use]
    pub fn quoted(&self) -> String {
        if self.0 == DEFAULT_SCHEMA { self.0.clone() } else { format!("\"{}\"", self.0.replace('"', "\"\"")) }
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self(DEFAULT_SCHEMA.into())
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_what_would_be_changed_is_refused() {
        let quoted = |name: &str| Schema::new(name).map(|schema| schema.quoted());
        assert_eq!(quoted("bandog").as_deref(), Ok("bandog"));
        assert_eq!(quoted("MyApp").as_deref(), Ok("\"MyApp\""));
        assert_eq!(quoted("we\"ird").as_deref(), Ok("\"we\"\"ird\""));
        assert!(quoted(&"x".repeat(63)).is_ok());
        for refused in ["", "x\ny", "pg_temp", "a$b", &"x".repeat(64), &"é".repeat(32)] {
            assert!(quoted(refused).is_err(), "{refused:?}");
        }
    }
}
