//! The wake: telling the host that something changed, and when the next work is due.
//!
//! Always only a hint. Changes come in bursts, so a thread of its own looks once after each burst and calls the host from
//! there: under no lock, and in nobody's way however long the host takes.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::job::Micros;
use crate::store::{Store, Subscription};

/// What the host wants to be told: when the next work is due, `None` with nothing pending.
pub type WakeCallback = Box<dyn Fn(Option<Micros>) + Send>;

#[derive(Default)]
struct State {
    changed: bool,
    stopped: bool,
}

/// Shared by the store, which reports changes, and the thread.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    signal: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.lock().changed = true;
        self.signal.notify_one();
    }
}

/// Calls the host after changes until it is stopped.
pub struct Wake {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    _subscription: Subscription,
}

impl Wake {
    /// Start telling `callback` about changes in `store`; once at first, since work may be waiting there.
    ///
    /// # Errors
    /// `StoreFailed` where the thread could not be started.
    pub fn start(store: Arc<dyn Store>, callback: WakeCallback) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let reporter = Arc::clone(&shared);
        let subscription = store.subscribe(Box::new(move |_| reporter.changed()));
        shared.changed();
        let body = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("bandog-wake".into())
            .spawn(move || run(&body, store.as_ref(), &callback))
            .map_err(|error| Error::StoreFailed {
                target: "the wake".into(),
                problem: format!("its thread could not be started: {error}"),
            })?;
        Ok(Self { shared, thread: Some(thread), _subscription: subscription })
    }

    /// Call the host no more. Does not wait for a call that is under way: it may be waiting for the caller.
    pub fn stop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.signal.notify_all();
        drop(self.thread.take());
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(shared: &Shared, store: &dyn Store, callback: &WakeCallback) {
    loop {
        let mut state = shared.lock();
        while !state.changed && !state.stopped {
            state = shared.signal.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopped {
            return;
        }
        state.changed = false;
        drop(state);
        match store.next_wake().wait() {
            Ok(next) => {
                if shared.lock().stopped {
                    return;
                }
                callback(next);
            }
            Err(Error::Closed) => return,
            // The change is lost to the host, which polls: the wake is a hint.
            Err(error) => log::warn!("the host was not told of a change: {error}"),
        }
    }
}
