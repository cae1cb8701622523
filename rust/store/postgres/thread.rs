//! The thread that talks to the server, and how requests reach it.
//!
//! A runtime of its own, so that nothing else of the process can hold up a renewal, and nothing of it survives where it must
//! not: a forked child has no such thread, and never touches what belongs to it.

use std::sync::Arc;
use std::thread::{JoinHandle, ThreadId};

use futures_util::future::{LocalBoxFuture, join_all};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use super::address::Address;
use super::inbox::Inbox;
use super::link::Link;
use super::options::PostgresOptions;
use super::shared::Shared;
use super::{claim, ingest, notify, renew, settle};
use crate::error::{Error, Result};

/// Something to do on a link, one after the other.
pub(super) type Work = Box<dyn for<'a> FnOnce(&'a Shared, &'a mut Link) -> LocalBoxFuture<'a, ()> + Send>;

/// Where requests go. Once all of these are gone, the thread finishes what it has and ends.
pub(super) struct Senders {
    pub(super) claim: UnboundedSender<claim::Request>,
    pub(super) renew: UnboundedSender<renew::Request>,
    pub(super) settle: UnboundedSender<settle::Request>,
    pub(super) ingest: UnboundedSender<ingest::Request>,
    /// Reads, which never wait for a row.
    pub(super) look: UnboundedSender<Work>,
    /// Writes that are asked for by hand, and may wait for rows.
    pub(super) manage: UnboundedSender<Work>,
}

/// The running thread.
pub(super) struct Thread(JoinHandle<()>);

impl Thread {
    /// Start it. No link is made before there is something to do on it.
    pub(super) fn start(shared: &Arc<Shared>) -> Result<(Self, Senders)> {
        let (claim, claims) = unbounded_channel();
        let (renew, renewals) = unbounded_channel();
        let (settle, settlements) = unbounded_channel();
        let (ingest, ingestions) = unbounded_channel();
        let (look, looks) = unbounded_channel();
        let (manage, manages) = unbounded_channel();
        let hand_back = settle.clone();
        let runtime = runtime(shared)?;
        let thread_shared = Arc::clone(shared);
        let body = move || {
            let shared = thread_shared;
            let local = LocalSet::new();
            let duties = [
                local.spawn_local(claim::serve(Arc::clone(&shared), Inbox::new(claims), hand_back)),
                local.spawn_local(renew::serve(Arc::clone(&shared), Inbox::new(renewals))),
                local.spawn_local(settle::serve(Arc::clone(&shared), Inbox::new(settlements))),
                local.spawn_local(ingest::serve(Arc::clone(&shared), Inbox::new(ingestions))),
                local.spawn_local(one_by_one(Arc::clone(&shared), "look", looks)),
                local.spawn_local(one_by_one(Arc::clone(&shared), "manage", manages)),
            ];
            // It ends after all others, whose last doings it tells of.
            let (over, is_over) = oneshot::channel();
            let notifying = local.spawn_local(notify::serve(shared, is_over));
            let ended = local.block_on(&runtime, async {
                let mut ended = join_all(duties).await;
                drop(over);
                ended.push(notifying.await);
                ended
            });
            for error in ended.into_iter().filter_map(std::result::Result::err) {
                log::error!("a part of the thread for PostgreSQL ended early: {error}");
            }
        };
        let thread = std::thread::Builder::new()
            .name("bandog-postgres".into())
            .spawn(body)
            .map_err(|error| Error::StoreFailed { target: shared.target().into(), problem: error.to_string() })?;
        Ok((Self(thread), Senders { claim, renew, settle, ingest, look, manage }))
    }

    pub(super) fn id(&self) -> ThreadId {
        self.0.thread().id()
    }

    /// Wait until it has ended.
    pub(super) fn join(self) {
        let _ = self.0.join();
    }
}

fn runtime(shared: &Shared) -> Result<Runtime> {
    Builder::new_current_thread().enable_io().enable_time().build().map_err(|error| Error::StoreFailed {
        target: shared.target().into(),
        problem: format!("its runtime could not be made: {error}"),
    })
}

async fn one_by_one(shared: Arc<Shared>, duty: &'static str, mut works: UnboundedReceiver<Work>) {
    let mut link = Link::new(&shared, duty);
    while let Some(work) = link.idle(works.recv()).await {
        work(&shared, &mut link).await;
    }
    link.close().await;
}

/// Do one thing on a link of its own, in a thread that is gone afterwards.
pub(super) fn alone<T: Send>(
    url: &str,
    options: PostgresOptions,
    body: impl AsyncFnOnce(&Shared, &mut Link) -> Result<T> + Send,
) -> Result<T> {
    let shared = Arc::new(Shared::new(Address::parse(url)?, options));
    let runtime = runtime(&shared)?;
    let run = || {
        LocalSet::new().block_on(&runtime, async {
            let mut link = Link::new(&shared, "migrate");
            link.fail_fast = true;
            let answer = body(&shared, &mut link).await;
            link.close().await;
            answer
        })
    };
    // The caller's thread may belong to another runtime, which would not have this one in it.
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| {
        Err(Error::StoreFailed { target: shared.target().into(), problem: "its thread ended early".into() })
    })
}
