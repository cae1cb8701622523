//! Statements that a link has prepared, so that the server plans them once and not with every use.
//!
//! Planning a claim takes the server longer than carrying out a small one. But a statement is prepared in one session of the
//! server, and a pooler may hand the next transaction to another one, where its name means nothing, or something else. So
//! each transaction begins by checking that it is in the session that the link began in (see `transaction`); where it is not,
//! it fails before anything else is done, and the link prepares nothing from there on.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

/// How often a statement is used before it is prepared.
const WORTH_IT: u32 = 2;

/// What one link has prepared.
#[derive(Default)]
pub(super) struct Plans {
    /// The server's process, which is the session; `None` where nothing is prepared.
    session: Cell<Option<i32>>,
    prepared: RefCell<HashMap<String, Statement>>,
    used: RefCell<HashMap<String, (u32, Vec<Type>)>>,
}

impl Plans {
    /// Of a link that has just been made.
    pub(super) async fn of(client: &Client) -> Self {
        let session = match client.query_typed("SELECT pg_catalog.pg_backend_pid()", &[]).await {
            Ok(rows) => rows.first().and_then(|row| row.try_get(0).ok()),
            Err(_) => None,
        };
        Self { session: Cell::new(session), ..Self::default() }
    }

    /// The session that all of it is in.
    pub(super) fn session(&self) -> Option<i32> {
        self.session.get()
    }

    /// A prepared statement. What is not prepared is counted.
    pub(super) fn find(&self, sql: &str, types: impl Iterator<Item = Type>) -> Option<Statement> {
        self.session.get()?;
        if let Some(statement) = self.prepared.borrow().get(sql) {
            return Some(statement.clone());
        }
        let mut used = self.used.borrow_mut();
        if let Some((times, _)) = used.get_mut(sql) {
            *times += 1;
        } else {
            used.insert(sql.to_owned(), (1, types.collect()));
        }
        None
    }

    /// Statements that are worth preparing by now.
    pub(super) fn wanted(&self) -> Vec<(String, Vec<Type>)> {
        let mut used = self.used.borrow_mut();
        let wanted: Vec<String> =
            used.iter().filter(|(_, (times, _))| *times >= WORTH_IT).map(|(sql, _)| sql.clone()).collect();
        wanted.into_iter().filter_map(|sql| used.remove(&sql).map(|(_, types)| (sql, types))).collect()
    }

    /// One was prepared.
    pub(super) fn add(&self, sql: String, statement: Statement) {
        self.prepared.borrow_mut().insert(sql, statement);
    }

    /// Prepare nothing more, and forget what was prepared: the session is another one.
    pub(super) fn give_up(&self) {
        self.session.set(None);
        self.prepared.borrow_mut().clear();
        self.used.borrow_mut().clear();
    }
}
