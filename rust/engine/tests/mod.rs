//! The engine on a real file: leases on a clock that is moved by hand, pools on the system's.

mod leases;
mod pools;

use std::time::{Duration, Instant};

use crate::job::{Budgets, Due, NewJob};

/// A job of that id, with defaults.
fn job(job_id: &str) -> NewJob {
    NewJob {
        job_id: job_id.into(),
        queue: "default".into(),
        lane: "default".into(),
        priority: 0,
        payload: "null".into(),
        budgets: Budgets::default(),
        backoff: None,
        timeout: None,
        due: Due::Now,
    }
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
