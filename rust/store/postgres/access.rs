//! What the role of a store may do: found out at opening, so that what is missing is said once and by name.
//!
//! The server has the last word: a privilege that was taken away since makes a call fail, and one that was granted since lets
//! it through. What was found at opening is then only what the message can tell.

use tokio_postgres::types::Type;

use super::fault::{Fault, cannot_open};
use super::options::{DEFAULT_SCHEMA, Schema};
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::get;
use crate::error::{Error, Result};

/// What a role lacks, by what it takes beside it: to look at jobs, to ingest, to run them. Empty texts for nothing.
#[derive(Debug, Default)]
pub(super) struct Access {
    role: String,
    observer: String,
    producer: String,
    worker: String,
}

/// Find out, and refuse a role that may not even look.
pub(super) async fn check(transaction: &Transaction<'_>, shared: &Shared) -> Result<(), Fault> {
    let name = shared.options.schema.as_str();
    let rows = transaction.query(&shared.sql.schema_access, &[(&name, Type::TEXT)]).await?;
    let row = rows.first().ok_or_else(|| Fault::broken("the catalogue returned no row".into()))?;
    let access = Access {
        role: get(row, "role")?,
        observer: get(row, "observer")?,
        producer: get(row, "producer")?,
        worker: get(row, "worker")?,
    };
    if !access.observer.is_empty() {
        let problem = format!(
            "the role {:?} may not read the schema {:?}: it lacks {}. {} (or observer or producer, in the place of worker)",
            access.role,
            shared.options.schema,
            access.observer,
            access.remedy(&shared.options.schema)
        );
        return Err(Fault::own(cannot_open(shared.target(), problem)));
    }
    let _ = shared.access.set(access);
    Ok(())
}

impl Access {
    /// Refuse to run jobs where that would fail with each claim.
    pub(super) fn may_run(&self, shared: &Shared) -> Result<()> {
        let lacks: Vec<&str> =
            [&self.producer, &self.worker].into_iter().map(String::as_str).filter(|lacks| !lacks.is_empty()).collect();
        if lacks.is_empty() {
            return Ok(());
        }
        Err(Error::StoreFailed {
            target: shared.target().to_owned(),
            problem: format!(
                "the role {:?} may not run the jobs of schema {:?}: when the queue was opened, it lacked {}. {}, and open \
                 the queue again",
                self.role,
                shared.options.schema,
                lacks.join(", "),
                self.remedy(&shared.options.schema)
            ),
        })
    }

    /// Why the server refused something, and what to do.
    pub(super) fn refused(&self, message: &str, schema: &Schema) -> String {
        let lacks = [("a producer", &self.producer), ("a worker", &self.worker)]
            .into_iter()
            .filter(|(_, lacks)| !lacks.is_empty())
            .map(|(kind, lacks)| format!("To be {kind}, the role {:?} lacks {lacks}. ", self.role));
        format!("{message}; nothing was changed. {}{}", lacks.collect::<String>(), self.remedy(schema))
    }

    fn remedy(&self, schema: &Schema) -> String {
        let place = match schema.as_str() {
            DEFAULT_SCHEMA => String::new(),
            name => format!(" --schema {}", shell_word(name)),
        };
        format!(
            "The schema's owner grants it with what `bandog grants {} --as worker{place}` prints",
            shell_word(&self.role)
        )
    }
}

/// A name as a shell takes it.
fn shell_word(name: &str) -> String {
    match name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}
