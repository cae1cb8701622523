//! The requests of one kind: those that wait together are taken together.

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

/// How many requests are taken at once.
const LARGEST_BATCH: usize = 1_000;

/// Requests as they come in.
pub(super) struct Inbox<R>(UnboundedReceiver<R>);

impl<R> Inbox<R> {
    pub(super) fn new(receiver: UnboundedReceiver<R>) -> Self {
        Self(receiver)
    }

    /// All that wait, once there is one; none where `until` came first; `None` once there will never be one again.
    pub(super) async fn next(&mut self, until: Option<Instant>) -> Option<Vec<R>> {
        let first = match until {
            None => self.0.recv().await,
            Some(until) => match timeout_at(until, self.0.recv()).await {
                Ok(first) => first,
                Err(_) => return Some(Vec::new()),
            },
        };
        let mut requests = vec![first?];
        while requests.len() < LARGEST_BATCH
            && let Ok(request) = self.0.try_recv()
        {
            requests.push(request);
        }
        Some(requests)
    }
}
