//! Telling other hosts of queued jobs, and hearing of theirs.
//!
//! A transaction that sends a notification waits for every other one that does, all over the server: so none that stores
//! jobs does. The notification follows on a link of its own, one for a burst. On the same link this host listens, while
//! there is somebody to be told. Both are hints: whatever is not heard is found by polling.
//!
//! A pooler hands sessions from one client to the next, and with them what they listen to. Where links share a session, or
//! one changes, nothing is listened to.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::select;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::link::Link;
use super::shared::Shared;
use super::values::get;
use crate::fork::Generation;

/// The name of the link.
pub(super) const DUTY: &str = "notify";

/// The shortest time between two notifications.
const PAUSE: Duration = Duration::from_millis(5);

/// How often it is made sure that the server is still there and would be heard. A link can be dead without a word: a
/// firewall forgets it, or a host is gone.
const CHECK_PAUSE: Duration = Duration::from_secs(5);

/// How long the server may take, to connect too. With the pauses of a link (at most 5 s), hearing is restored within ten
/// seconds after the server is back.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// How long a last notification may take: a process that stores a job and leaves is to be heard too.
const FAREWELL: Duration = Duration::from_millis(500);

/// How often the session is looked at before it is listened in: a pooler that takes turns gives another one.
const LOOKS: u32 = 3;

/// What is to be told, and who wants to hear.
#[derive(Default)]
pub(super) struct Notices {
    unsent: AtomicBool,
    listeners: AtomicUsize,
    /// Whether sessions change under the links that carry everything else.
    pooled: AtomicBool,
    /// The sessions of the open links, by duty.
    sessions: Mutex<Vec<(&'static str, i32)>>,
    /// The session of this link; zero for none.
    own: AtomicI32,
    signal: Notify,
}

/// Held by a subscriber: there is somebody to be told.
pub(super) struct Listening {
    shared: Arc<Shared>,
    opened_in: Generation,
}

impl Listening {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        shared.notices.listeners.fetch_add(1, Ordering::SeqCst);
        shared.notices.signal.notify_one();
        Self { shared: Arc::clone(shared), opened_in: Generation::current() }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // In a forked child there is nobody to signal, and a lock may be held for ever.
        if self.opened_in.is_current() {
            self.shared.notices.listeners.fetch_sub(1, Ordering::SeqCst);
            self.shared.notices.signal.notify_one();
        }
    }
}

impl Notices {
    /// A job was queued, durably.
    pub(super) fn queued(&self) {
        if !self.unsent.swap(true, Ordering::SeqCst) {
            self.signal.notify_one();
        }
    }

    /// A link was made, in this session. Two that are open at once have two, unless a pooler is in between.
    pub(super) fn connected(&self, duty: &'static str, session: Option<i32>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(other, _)| *other != duty);
        let Some(session) = session else { return };
        let shared = sessions.iter().any(|(_, other)| *other == session);
        sessions.push((duty, session));
        drop(sessions);
        if duty == DUTY {
            self.own.store(session, Ordering::SeqCst);
        }
        if shared {
            self.are_pooled();
        }
    }

    /// A link is gone.
    pub(super) fn disconnected(&self, duty: &'static str) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != duty);
        if duty == DUTY {
            self.signal.notify_one();
        }
    }

    /// Sessions change under their links.
    pub(super) fn are_pooled(&self) {
        self.pooled.store(true, Ordering::SeqCst);
        self.signal.notify_one();
    }

    /// Whether sessions are known to change under their links.
    pub(super) fn is_pooled(&self) -> bool {
        self.pooled.load(Ordering::SeqCst)
    }

    /// Whether a notification came from another session than the one that heard it.
    pub(super) fn is_news(&self, session: i32) -> bool {
        session != self.own.load(Ordering::SeqCst)
    }
}

/// Tell and listen until `over`, then send what is left to be told.
pub(super) async fn serve(shared: Arc<Shared>, over: oneshot::Receiver<()>) {
    if !shared.address().notify {
        return;
    }
    let link = Link::new(&shared, DUTY);
    let mut notifier =
        Notifier { shared, link, listens: false, is_deaf: false, is_telling: false, check_at: Instant::now() };
    select(pin!(notifier.run()), over).await;
    notifier.finish().await;
}

struct Notifier {
    shared: Arc<Shared>,
    link: Link,
    listens: bool,
    /// Whether it was found that listening is of no use here.
    is_deaf: bool,
    /// Whether something was to be told that may not have been.
    is_telling: bool,
    check_at: Instant,
}

impl Notifier {
    async fn run(&mut self) {
        loop {
            if self.listens && !self.should_listen() {
                self.fall_silent().await;
            }
            if !self.has_something_to_do() {
                let until = if self.listens { self.check_at } else { Instant::now() + CHECK_PAUSE };
                let shared = Arc::clone(&self.shared);
                let _ = self.link.idle(timeout_at(until, shared.notices.signal.notified())).await;
                continue;
            }
            self.link.rest().await;
            let begun = Instant::now();
            match self.step().await {
                Err(fault) => {
                    self.listens = false;
                    if !self.link.is_resting() {
                        // What was refused would be so again at once.
                        let error = self.shared.error(fault, begun);
                        self.shared.complain(&format!("other hosts are not told of jobs for now: {error}"));
                        self.link.pause();
                    }
                }
                Ok(()) => sleep_until(begun + PAUSE).await,
            }
        }
    }

    fn should_listen(&self) -> bool {
        let notices = &self.shared.notices;
        let pooled = notices.is_pooled() && self.shared.address().listen.is_none();
        notices.listeners.load(Ordering::SeqCst) > 0 && !pooled && !self.is_deaf
    }

    fn hears(&self) -> bool {
        self.listens && self.link.is_open()
    }

    fn has_something_to_do(&self) -> bool {
        self.is_telling
            || self.shared.notices.unsent.load(Ordering::SeqCst)
            || (self.should_listen() && (!self.hears() || Instant::now() >= self.check_at))
    }

    async fn step(&mut self) -> Result<(), Fault> {
        let deadline = Instant::now() + ANSWER_WITHIN;
        if self.should_listen() && !self.hears() {
            self.listen(deadline).await?;
        }
        self.tell(deadline).await?;
        if self.hears() && Instant::now() >= self.check_at {
            self.check(deadline).await?;
        }
        Ok(())
    }

    async fn listen(&mut self, deadline: Instant) -> Result<(), Fault> {
        self.listens = false;
        self.link.connect(deadline).await?;
        for _ in 0..LOOKS {
            let (is_ours, _) = self.look(deadline).await?;
            self.is_deaf |= !is_ours;
        }
        if self.should_listen() {
            let statement = format!("LISTEN {}", self.shared.options.schema.quoted());
            self.link.run(deadline, &statement, &[]).await?;
            (self.listens, self.check_at) = (true, Instant::now() + CHECK_PAUSE);
            // Whatever came until now was not heard.
            self.shared.heard();
        } else {
            self.say_that_it_is_of_no_use();
        }
        Ok(())
    }

    /// Tell the others, where there is something to tell.
    async fn tell(&mut self, deadline: Instant) -> Result<(), Fault> {
        let shared = Arc::clone(&self.shared);
        // What is queued from here on is told of in its own turn. What was begun is not done before there is an answer: this
        // may be given up on the way.
        self.is_telling |= shared.notices.unsent.swap(false, Ordering::SeqCst);
        if self.is_telling {
            let channel = shared.options.schema.as_str();
            let told = self.link.run(deadline, &shared.sql.notify, &[(&channel, Type::TEXT)]).await;
            self.is_telling = matches!(told, Err(Fault::Lost(_) | Fault::Late));
            told?;
        }
        Ok(())
    }

    async fn check(&mut self, deadline: Instant) -> Result<(), Fault> {
        let session = self.link.session();
        let found = self.look(deadline).await?;
        if self.link.session() != session {
            self.listens = false; // it was made anew on the way, and nobody listens there yet
        } else if found != (true, true) {
            self.is_deaf = true;
            self.say_that_it_is_of_no_use();
        }
        self.check_at = Instant::now() + CHECK_PAUSE;
        Ok(())
    }

    /// Whether the session is the one that the link began in, and whether it listens.
    async fn look(&mut self, deadline: Instant) -> Result<(bool, bool), Fault> {
        let shared = Arc::clone(&self.shared);
        let rows =
            self.link.run(deadline, &shared.sql.notify_check, &[(&shared.options.schema.as_str(), Type::TEXT)]).await?;
        let row = rows.first().ok_or_else(|| Fault::broken("the server did not say who it is".into()))?;
        let session: i32 = get(row, "session")?;
        Ok((self.link.session() == Some(session), get(row, "listens")?))
    }

    fn say_that_it_is_of_no_use(&self) {
        log::info!(
            "{} is not listened to: its sessions change, as behind a pooler. Jobs of other hosts are found by polling, or \
             name the server itself as listen_host and listen_port in the URL",
            self.shared.target()
        );
    }

    /// Listen no more.
    async fn fall_silent(&mut self) {
        self.listens = false;
        std::mem::replace(&mut self.link, Link::new(&self.shared, DUTY)).close().await;
    }

    async fn finish(mut self) {
        // Where the server does not answer, there is nobody to be told.
        if self.link.failures() == 0 {
            let _ = timeout(FAREWELL, self.tell(Instant::now() + FAREWELL)).await;
        }
        self.link.close().await;
    }
}
