//! One result, delivered once: to a thread that waits for it, or to a callback.
//!
//! Every operation of a [`Store`](crate::store::Store) returns a [`Completion`]. The sync face waits on it, the async face
//! hands it a callback; no operation has two bodies. A waiting thread may be put to use: where the store has no thread of
//! its own in the way (SQLite), the waiter itself does the work, for itself and for all who wait beside it, which saves
//! two thread switches per call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// What carries pending work forward when somebody waits for it.
pub trait Driver: Send + Sync {
    /// Do pending work in this thread, until `deadline` at the latest. False where another thread is at it already: then
    /// the caller sleeps until its completion is delivered or it is asked to take over.
    fn drive(&self, deadline: Instant) -> bool;

    /// Nobody waits for the pending work: have a thread of the driver's own do it.
    fn poke(&self);
}

/// Runs work on a thread that may block.
pub trait Spawn: Send + Sync {
    /// Run `work` soon, on another thread.
    fn spawn(&self, work: Box<dyn FnOnce() + Send>);
}

type Callback<T> = Box<dyn FnOnce(Result<T>) + Send>;
type Work<T> = Box<dyn FnOnce() -> Result<T> + Send>;

struct Slot<T>(Mutex<SlotState<T>>);

struct SlotState<T> {
    result: Option<Result<T>>,
    callback: Option<Callback<T>>,
    waiter: Option<Thread>,
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, SlotState<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Source<T> {
    /// Somebody else will deliver.
    Elsewhere,
    /// The driver will, helped by whoever waits.
    Driven(Arc<dyn Driver>),
    /// Nobody yet: the waiter runs it, or a spawned thread does.
    Lazy(Option<Work<T>>, Arc<dyn Spawn>),
}

/// The receiving end. Dropping it abandons the answer, not the operation.
pub struct Completion<T> {
    slot: Arc<Slot<T>>,
    source: Source<T>,
}

/// The delivering end. Dropping it unused delivers an error, so that no waiter hangs on a lost operation.
pub struct Reply<T>(Option<Arc<Slot<T>>>);

/// The results of two completions so far, and who wants both.
type Halves<T, U> = (Option<Result<T>>, Option<Result<U>>, Option<Reply<(Result<T>, Result<U>)>>);

fn slot<T>() -> Arc<Slot<T>> {
    Arc::new(Slot(Mutex::new(SlotState { result: None, callback: None, waiter: None })))
}

impl<T: Send + 'static> Completion<T> {
    /// A completion that another thread delivers.
    #[must_use]
    pub fn pair() -> (Reply<T>, Self) {
        let slot = slot();
        (Reply(Some(Arc::clone(&slot))), Self { slot, source: Source::Elsewhere })
    }

    /// A completion that `driver` delivers, with the help of whoever waits.
    #[must_use]
    pub fn driven(driver: Arc<dyn Driver>) -> (Reply<T>, Self) {
        let slot = slot();
        (Reply(Some(Arc::clone(&slot))), Self { slot, source: Source::Driven(driver) })
    }

    /// A completion whose work runs in the thread that waits, or on a thread of `spawn` for a callback.
    #[must_use]
    pub fn lazy(work: impl FnOnce() -> Result<T> + Send + 'static, spawn: Arc<dyn Spawn>) -> Self {
        Self { slot: slot(), source: Source::Lazy(Some(Box::new(work)), spawn) }
    }

    /// What `change` makes of the result; it must not block.
    #[must_use]
    pub fn map<U: Send + 'static>(self, change: impl FnOnce(T) -> U + Send + 'static) -> Completion<U> {
        let (reply, changed) = Completion::pair();
        self.on_done(move |result| reply.send(result.map(change)));
        changed
    }

    /// Both of two completions, once both are there.
    #[must_use]
    pub fn both<U: Send + 'static>(self, other: Completion<U>) -> Completion<(Result<T>, Result<U>)> {
        let (reply, both) = Completion::pair();
        let halves = Arc::new(Mutex::new((None, None, Some(reply))));
        let deliver = |halves: &Mutex<Halves<T, U>>| {
            let mut halves = halves.lock().unwrap_or_else(PoisonError::into_inner);
            if let (Some(_), Some(_)) = (&halves.0, &halves.1)
                && let (Some(first), Some(second), Some(reply)) = (halves.0.take(), halves.1.take(), halves.2.take())
            {
                drop(halves);
                reply.send(Ok((first, second)));
            }
        };
        let (of_first, of_second) = (Arc::clone(&halves), halves);
        self.on_done(move |result| {
            of_first.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(result);
            deliver(&of_first);
        });
        other.on_done(move |result| {
            of_second.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(result);
            deliver(&of_second);
        });
        both
    }

    /// A completion that is there already.
    #[must_use]
    pub fn ready(result: Result<T>) -> Self {
        let completion = Self { slot: slot(), source: Source::Elsewhere };
        completion.slot.lock().result = Some(result);
        completion
    }

    /// Wait until it is delivered.
    ///
    /// # Errors
    /// Whatever the operation failed with.
    pub fn wait(mut self) -> Result<T> {
        loop {
            if let Some(result) = self.wait_until(Instant::now() + Duration::from_secs(3600)) {
                return result;
            }
        }
    }

    /// Wait until it is delivered or the deadline has passed; `None` then, and waiting again is allowed. The result can be
    /// taken once.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<Result<T>> {
        if let Source::Lazy(work, _) = &mut self.source
            && let Some(work) = work.take()
        {
            return Some(work());
        }
        self.slot.lock().waiter = Some(std::thread::current());
        loop {
            if let Some(result) = self.slot.lock().result.take() {
                return Some(result);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.stop_waiting();
                return None;
            }
            let worked = matches!(&self.source, Source::Driven(driver) if driver.drive(deadline));
            if !worked {
                std::thread::park_timeout(left);
            }
        }
    }

    /// Have `callback` called with the result, on whichever thread delivers it: it must not block.
    pub fn on_done(mut self, callback: impl FnOnce(Result<T>) + Send + 'static) {
        if let Source::Lazy(work, spawn) = &mut self.source
            && let Some(work) = work.take()
        {
            spawn.spawn(Box::new(move || callback(work())));
            return;
        }
        let ready = {
            let mut state = self.slot.lock();
            if let Some(result) = state.result.take() {
                result
            } else {
                state.callback = Some(Box::new(callback));
                drop(state);
                return; // dropping self pokes the driver
            }
        };
        callback(ready);
    }
}

impl<T> Completion<T> {
    /// From here on this thread may be stuck elsewhere (waiting for an interpreter lock, say), so it must not be counted on
    /// to drive: whoever waits beside it would wait for it too.
    fn stop_waiting(&self) {
        let mut state = self.slot.lock();
        state.waiter = None;
        let pending = state.result.is_none() && Arc::strong_count(&self.slot) > 1;
        drop(state);
        if pending && let Source::Driven(driver) = &self.source {
            driver.poke();
        }
    }
}

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        self.stop_waiting();
    }
}

impl<T> Reply<T> {
    /// Deliver.
    pub fn send(mut self, result: Result<T>) {
        self.deliver(result);
    }

    /// Wake the thread that waits for this reply, so that it takes over driving. False where none waits.
    #[must_use]
    pub fn wake(&self) -> bool {
        self.0.as_ref().is_some_and(|slot| match &slot.lock().waiter {
            Some(waiter) => {
                waiter.unpark();
                true
            }
            None => false,
        })
    }

    fn deliver(&mut self, result: Result<T>) {
        let Some(slot) = self.0.take() else { return };
        let mut state = slot.lock();
        if let Some(callback) = state.callback.take() {
            drop(state);
            callback(result);
        } else {
            state.result = Some(result);
            if let Some(waiter) = state.waiter.take() {
                drop(state);
                waiter.unpark();
            }
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        self.deliver(Err(Error::StoreFailed {
            target: "the store".into(),
            problem: "the operation was dropped before it was carried out".into(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_result_reaches_a_thread_that_waits() {
        let (reply, completion) = Completion::<u8>::pair();
        let thread = std::thread::spawn(move || completion.wait());
        reply.send(Ok(7));
        assert_eq!(thread.join().unwrap(), Ok(7));
    }

    #[test]
    fn a_result_reaches_a_callback_set_before_or_after() {
        for before in [true, false] {
            let (reply, completion) = Completion::<u8>::pair();
            let (sender, receiver) = mpsc::channel();
            if before {
                completion.on_done(move |result| sender.send(result).unwrap());
                reply.send(Ok(7));
            } else {
                reply.send(Ok(7));
                completion.on_done(move |result| sender.send(result).unwrap());
            }
            assert_eq!(receiver.recv().unwrap(), Ok(7));
        }
    }

    #[test]
    fn waiting_gives_up_at_its_deadline_and_may_go_on() {
        let (reply, mut completion) = Completion::<u8>::pair();
        assert_eq!(completion.wait_until(Instant::now() + Duration::from_millis(1)), None);
        reply.send(Ok(7));
        assert_eq!(completion.wait(), Ok(7));
    }

    #[test]
    fn both_of_two_are_delivered_once_both_are_there() {
        let ((first, one), (second, other)) = (Completion::<u8>::pair(), Completion::<u8>::pair());
        let mut both = one.both(other);
        second.send(Ok(2));
        assert_eq!(both.wait_until(Instant::now() + Duration::from_millis(1)), None);
        first.send(Err(Error::Closed));
        assert_eq!(both.wait(), Ok((Err(Error::Closed), Ok(2))));
    }

    #[test]
    fn a_dropped_reply_is_an_error_and_not_a_hang() {
        let (reply, completion) = Completion::<u8>::pair();
        drop(reply);
        assert!(completion.wait().is_err());
    }
}
