//! The requests of one kind: those that wait together are taken together.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, timeout_at};

use super::link::Link;
use super::shared::Shared;

/// How many requests are taken at once.
const LARGEST_BATCH: usize = 1_000;

/// The pause between two tries of requests that wait for rows which somebody holds locked.
const PAUSE: Duration = Duration::from_millis(50);

/// The pause between two tries of requests whose transaction met a lock as a whole.
pub(super) const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Of requests that meet a lock, those that go on waiting; the others have waited long enough, and are told. `times` is when
/// a request was asked, and its deadline.
pub(super) fn patient<R>(
    shared: &Shared,
    requests: Vec<R>,
    times: impl Fn(&R) -> (Instant, Instant),
    give_up: impl Fn(R),
) -> Vec<R> {
    let now = Instant::now();
    let (waiting, over): (Vec<R>, Vec<R>) = requests.into_iter().partition(|request| {
        let (asked_at, deadline) = times(request);
        now < (asked_at + shared.options.busy_timeout).min(deadline) && !shared.gives_up()
    });
    over.into_iter().for_each(give_up);
    waiting
}

/// Requests as they come in.
pub(super) struct Inbox<R>(UnboundedReceiver<R>);

impl<R> Inbox<R> {
    pub(super) fn new(receiver: UnboundedReceiver<R>) -> Self {
        Self(receiver)
    }

    /// Carry requests out on a link until there are no more, and close it. Those that `carry_out` returns are tried again,
    /// together with what has come meanwhile.
    pub(super) async fn serve(mut self, mut link: Link, mut carry_out: impl AsyncFnMut(&mut Link, Vec<R>) -> Vec<R>) {
        let mut waiting: Vec<R> = Vec::new();
        let mut open = true;
        loop {
            let mut requests = std::mem::take(&mut waiting);
            if open {
                let again_at = (!requests.is_empty()).then(|| Instant::now() + PAUSE);
                match link.idle(self.next(again_at)).await {
                    Some(new) => requests.extend(new),
                    None => open = false,
                }
            } else if requests.is_empty() {
                return link.close().await;
            } else {
                sleep(PAUSE).await;
            }
            waiting = carry_out(&mut link, requests).await;
        }
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
