//! Log records on their way to Python's `logging`.
//!
//! A record needs the interpreter lock, and the threads that log are those that must never wait for it: the keeper of
//! leases first of all. They hand their records to a thread that does nothing else. It starts with the first record.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, TryLockError};

use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;
use pyo3_log::{Caching, Logger};

use super::attach::attach;
use crate::fork::Generation;

/// How many records may wait. More are dropped, so that a process whose interpreter is busy for long does not grow.
const LONGEST_QUEUE: usize = 1_000;

struct Message {
    level: Level,
    target: String,
    text: String,
}

/// The way to the thread, and the process that started it: a forked child starts its own.
type Link = Option<(Generation, SyncSender<Message>)>;

struct Deferred {
    python: Arc<Logger>,
    link: Mutex<Link>,
}

impl Log for Deferred {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true // `logging` decides, on the other thread
    }

    fn log(&self, record: &Record<'_>) {
        let mut link = match self.link.try_lock() {
            Ok(link) => link,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Two records at once, or a child that was forked during one: not worth waiting for.
            Err(TryLockError::WouldBlock) => return,
        };
        if !link.as_ref().is_some_and(|(started_in, _)| started_in.is_current()) {
            let (sender, receiver) = sync_channel(LONGEST_QUEUE);
            let python = Arc::clone(&self.python);
            let started =
                std::thread::Builder::new().name("bandog-log".into()).spawn(move || deliver(&python, receiver));
            *link = started.ok().map(|_| (Generation::current(), sender));
        }
        if let Some((_, sender)) = link.as_ref() {
            let text = record.args().to_string();
            let _ = sender.try_send(Message { level: record.level(), target: record.target().to_owned(), text });
        }
    }

    fn flush(&self) {}
}

fn deliver(python: &Logger, messages: Receiver<Message>) {
    for message in messages {
        // `None`: the interpreter shuts down, and nobody is there to read it.
        let delivered = attach(|_| {
            let Message { level, target, text } = &message;
            python.log(&Record::builder().level(*level).target(target).args(format_args!("{text}")).build());
        });
        if delivered.is_none() {
            return;
        }
    }
}

/// Send our records to `logging`, from the first import on.
pub(super) fn install(py: Python<'_>) -> PyResult<()> {
    let python = Arc::new(Logger::new(py, Caching::LoggersAndLevels)?);
    // An error means that it was done before: the module was imported by a second interpreter.
    if log::set_boxed_logger(Box::new(Deferred { python, link: Mutex::new(None) })).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
    Ok(())
}
