//! The thread that carries results and calls into the interpreter for those who must not wait for it.
//!
//! Whoever commits a transaction or keeps a lease never takes the interpreter lock: it hands over a closure, and one thread
//! runs them in order, as many per turn of the lock as have come. A closure only starts things (a callback of a token, a
//! `call_soon_threadsafe`), so that one slow callback delays the others but never the store.

#![allow(unsafe_code, reason = "a pointer that is swapped atomically: a lock is what a forked child cannot take")]

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use super::attach::attach;
use crate::fork::Generation;

type Call = Box<dyn FnOnce(Python<'_>) + Send>;

/// The way to the thread, and the process that started it: a forked child starts its own. A lock per process, because the
/// child may inherit its parent's locked for ever.
struct Link {
    made_in: Generation,
    sender: Mutex<Option<Sender<Call>>>,
}

static LINK: AtomicPtr<Link> = AtomicPtr::new(std::ptr::null_mut());

/// This process's link. A child leaks its parent's: letting go of that would take its inner locks.
fn link() -> &'static Link {
    let found = LINK.load(Ordering::Acquire);
    // SAFETY: only `link` stores here, and only pointers to leaked, never freed values.
    if let Some(link) = unsafe { found.as_ref() }
        && link.made_in.is_current()
    {
        return link;
    }
    let fresh: &'static Link = Box::leak(Box::new(Link { made_in: Generation::current(), sender: Mutex::new(None) }));
    let pointer = std::ptr::from_ref(fresh).cast_mut();
    match LINK.compare_exchange(found, pointer, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        // SAFETY: as above; another thread of this process was faster.
        Err(other) => unsafe { other.as_ref() }.unwrap_or(fresh),
    }
}

/// Have the thread call into the interpreter. Where it is shutting down, nothing is called.
pub(super) fn deliver(call: impl FnOnce(Python<'_>) + Send + 'static) {
    let mut sender = link().sender.lock().unwrap_or_else(PoisonError::into_inner);
    if sender.is_none() {
        let (fresh, receiver) = channel();
        let started = std::thread::Builder::new().name("bandog-callbacks".into()).spawn(move || run(&receiver));
        match started {
            Ok(_) => *sender = Some(fresh),
            Err(error) => log::error!("the thread for callbacks could not be started, and a callback is lost: {error}"),
        }
    }
    let open = sender.clone();
    drop(sender);
    // Under no lock: where the thread saw the interpreter shut down, the call is dropped here, with all that it holds.
    if let Some(open) = open {
        let _ = open.send(Box::new(call));
    }
}

fn run(calls: &Receiver<Call>) {
    while let Ok(first) = calls.recv() {
        let attached = attach(|py| {
            first(py);
            for call in calls.try_iter() {
                call(py);
            }
        });
        if attached.is_none() {
            return;
        }
    }
}
