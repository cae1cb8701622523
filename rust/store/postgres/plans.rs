//! What a link may rely on in its session: settings that last, and statements that are prepared.
//!
//! Planning a claim takes the server longer than carrying out a small one, and saying a transaction's settings each time as
//! long as a small settlement. Both last as long as the session does; but a pooler may hand the next transaction to another
//! one, where the settings are other people's, and the name of a statement means nothing, or something else. So nothing lasts
//! but where the session is the link's own (see `backend`). Where only its process is known (a pooler that keeps a session
//! for its client), statements are prepared, and each transaction begins by checking that it is still in that one; where it is
//! not, it fails before anything else is done, and the link prepares nothing from there on.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

use super::backend::process_of_key;
use super::transaction::{PLAN_ONCE, PLANNING, SEARCH_PATH, Terms, limits};

/// How often a statement is used before it is prepared.
const WORTH_IT: u32 = 2;

/// What one link has prepared.
#[derive(Default)]
pub(super) struct Plans {
    /// The server's process, which is the session; `None` where nothing is prepared.
    session: Cell<Option<i32>>,
    /// The terms that the session keeps, where it is the link's own.
    lasting: Cell<Option<Lasting>>,
    prepared: RefCell<HashMap<String, Statement>>,
    used: RefCell<HashMap<String, (u32, Vec<Type>)>>,
}

/// What holds for every transaction of a session that says nothing else.
#[derive(Clone, Copy)]
pub(super) struct Lasting {
    /// How long a statement waits for a locked row.
    pub(super) lock_wait: Duration,
    /// How long it may take.
    pub(super) limit: Duration,
}

impl Plans {
    /// Of a link that has just been made. `lasting` is what is said once where the session is its own.
    pub(super) async fn of(client: &Client, lasting: Lasting) -> Self {
        let session = match client.query_typed("SELECT pg_catalog.pg_backend_pid()", &[]).await {
            Ok(rows) => rows.first().and_then(|row| row.try_get(0).ok()),
            Err(_) => None,
        };
        let plans = Self { session: Cell::new(session), ..Self::default() };
        if session.is_some() && process_of_key(client).await == session {
            let isolation = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED";
            let limits = limits(lasting.lock_wait, lasting.limit);
            let settings = [isolation, SEARCH_PATH, &limits, PLANNING, PLAN_ONCE].join("; ");
            // In one transaction, which the server makes: all of it or nothing.
            if client.batch_execute(&settings.replace("SET LOCAL", "SET")).await.is_ok() {
                plans.lasting.set(Some(lasting));
            }
        }
        plans
    }

    /// The session that all of it is in.
    pub(super) fn session(&self) -> Option<i32> {
        self.session.get()
    }

    /// What the session keeps, where it is the link's own.
    pub(super) fn lasting(&self) -> Option<Lasting> {
        self.lasting.get()
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
        self.lasting.set(None);
        self.prepared.borrow_mut().clear();
        self.used.borrow_mut().clear();
    }
}

impl Lasting {
    /// Whether a transaction on these terms has nothing to add. Where the server stops at another moment than the caller, but
    /// in the same order of time, that is good enough.
    pub(super) fn covers(&self, terms: &Terms, left: Duration) -> bool {
        let in_order = left >= self.limit / 2 && left <= self.limit * 2;
        !terms.snapshot && terms.lock_wait == self.lock_wait && in_order
    }
}
