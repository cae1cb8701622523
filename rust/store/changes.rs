//! Who is told of durable changes: the wake of the host, and the workers of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Change, Subscriber};

type Shared = Arc<dyn Fn(Change) + Send + Sync>;

/// The subscribers of one store.
#[derive(Default)]
pub(super) struct Changes(Arc<Mutex<List>>);

#[derive(Default)]
struct List {
    last: u64,
    /// Replaced as a whole, so that they are called under no lock.
    subscribers: Arc<Vec<(u64, Shared)>>,
}

/// Ends the subscription when it is dropped. A call that is under way goes on.
pub(super) struct Subscribed {
    list: Arc<Mutex<List>>,
    number: u64,
}

fn lock(list: &Mutex<List>) -> MutexGuard<'_, List> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Changes {
    /// Have `subscriber` called, too.
    pub(super) fn subscribe(&self, subscriber: Subscriber) -> Subscribed {
        let mut list = lock(&self.0);
        list.last += 1;
        let number = list.last;
        let mut subscribers = list.subscribers.as_ref().clone();
        subscribers.push((number, Arc::from(subscriber)));
        list.subscribers = Arc::new(subscribers);
        Subscribed { list: Arc::clone(&self.0), number }
    }

    /// Tell all of them, in this thread.
    pub(super) fn report(&self, change: Change) {
        let subscribers = Arc::clone(&lock(&self.0).subscribers);
        for (_, subscriber) in subscribers.iter() {
            subscriber(change);
        }
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        let mut list = lock(&self.list);
        let mut subscribers = list.subscribers.as_ref().clone();
        subscribers.retain(|(number, _)| *number != self.number);
        let removed = std::mem::replace(&mut list.subscribers, Arc::new(subscribers));
        drop(list);
        drop(removed); // under no lock: what a subscriber holds may do anything when it goes
    }
}
