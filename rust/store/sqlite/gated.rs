//! A connection that is let go of inside the gate, and never in a forked child.

use std::ops::Deref;

use rusqlite::Connection;

use super::sharing;
use crate::fork::Generation;

/// Derefs to the connection. Whoever calls into it holds the gate, see [`sharing`].
pub(super) struct Gated {
    connection: Option<Connection>,
    opened_in: Generation,
}

impl Gated {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection: Some(connection), opened_in: Generation::current() }
    }
}

impl Deref for Gated {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        let connection = self.connection.take();
        if self.opened_in.is_current() {
            let _gate = sharing::enter();
            drop(connection);
        } else {
            // Closing it would run inside the child what belongs to the parent.
            std::mem::forget(connection);
        }
    }
}
