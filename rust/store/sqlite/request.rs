//! One request of a group: work to carry out in the transaction, and a reply to deliver after it.

use std::time::Instant;

use super::transaction::Transaction;
use crate::completion::Reply;
use crate::error::{Error, Result};

/// One request in the queue.
pub(super) trait Request: Send {
    /// Carry it out; an error means that its writes must be undone.
    fn run(&mut self, transaction: &Transaction<'_>) -> Result<()>;
    /// Answer it, after the commit or with why there was none.
    fn finish(self: Box<Self>, failure: Option<Error>);
    /// Wake the thread that waits for it; false where none does.
    fn wake(&self) -> bool;
    /// When it was asked for.
    fn asked_at(&self) -> Instant;
}

/// The request of a store operation.
pub(super) struct Task<T, F> {
    pub(super) work: Option<F>,
    pub(super) result: Option<T>,
    pub(super) reply: Reply<T>,
    pub(super) asked_at: Instant,
}

impl<T, F> Request for Task<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Transaction<'_>) -> Result<T> + Send,
{
    fn run(&mut self, transaction: &Transaction<'_>) -> Result<()> {
        if let Some(work) = self.work.take() {
            self.result = Some(work(transaction)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, failure: Option<Error>) {
        match (failure, self.result) {
            (Some(error), _) => self.reply.send(Err(error)),
            (None, Some(result)) => self.reply.send(Ok(result)),
            (None, None) => drop(self.reply),
        }
    }

    fn wake(&self) -> bool {
        self.reply.wake()
    }

    fn asked_at(&self) -> Instant {
        self.asked_at
    }
}
