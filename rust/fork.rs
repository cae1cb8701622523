//! Which process a handle belongs to: a forked child has a copy of it, without its threads, its locks or its right to close
//! anything.

use crate::error::{Error, Result};
use crate::store::sqlite::sharing;

/// The process that made something, told apart from its forked children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    number: u64,
    process: u32,
}

impl Generation {
    /// Of this process. From here on forks are counted.
    pub(crate) fn current() -> Self {
        sharing::install();
        Self { number: sharing::generation(), process: std::process::id() }
    }

    /// Whether this is still the same process.
    pub(crate) fn is_current(self) -> bool {
        sharing::generation() == self.number
    }

    /// Refuse to go on in a child.
    ///
    /// # Errors
    /// `Forked` with the process that made the handle.
    pub(crate) fn check(self) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(Error::Forked { opened_by: self.process }) }
    }
}
