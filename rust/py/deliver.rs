//! The thread that carries results and calls into the interpreter for those who must not wait for it.
//!
//! Whoever commits a transaction or keeps a lease never takes the interpreter lock: it hands over a closure, and one thread
//! runs them in order, as many per turn of the lock as have come. A closure only starts things (a callback of a token, a
//! `call_soon_threadsafe`), so that one slow callback delays the others but never the store.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::fork::Generation;

type Call = Box<dyn FnOnce(Python<'_>) + Send>;

/// The way to the thread, and the process that started it: a forked child starts its own.
static LINK: Mutex<Option<(Generation, Sender<Call>)>> = Mutex::new(None);

/// Have the thread call into the interpreter. Where it is shutting down, nothing is called.
pub(super) fn deliver(call: impl FnOnce(Python<'_>) + Send + 'static) {
    let mut link = LINK.lock().unwrap_or_else(PoisonError::into_inner);
    if !link.as_ref().is_some_and(|(started_in, _)| started_in.is_current()) {
        let (sender, receiver) = channel();
        let started = std::thread::Builder::new().name("bandog-callbacks".into()).spawn(move || run(&receiver));
        *link = match started {
            Ok(_) => Some((Generation::current(), sender)),
            Err(error) => {
                log::error!("the thread for callbacks could not be started, and a callback is lost: {error}");
                None
            }
        };
    }
    if let Some((_, sender)) = link.as_ref() {
        // An error means that the thread saw the interpreter shut down.
        let _ = sender.send(Box::new(call));
    }
}

fn run(calls: &Receiver<Call>) {
    while let Ok(first) = calls.recv() {
        let attached = Python::try_attach(|py| {
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
