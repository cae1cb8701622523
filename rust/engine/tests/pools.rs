//! Pools: what is claimed, what is recorded, and what is handed back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{eventually, job};
use crate::engine::Engine;
use crate::engine::cancellation::AbortReason;
use crate::engine::pool::{Assignment, Ending, Pool, PoolOptions};
use crate::job::{Budgets, Due, NewJob, OutcomeKind, Report, SECOND, State};
use crate::options::SqliteOptions;
use crate::store::sqlite::SqliteStore;

struct Fixture {
    engine: Engine,
    folder: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    Fixture { engine, folder }
}

fn open(folder: &tempfile::TempDir) -> Engine {
    let store = SqliteStore::open(&folder.path().join("jobs.sqlite"), &SqliteOptions::default()).unwrap();
    Engine::new(Arc::new(store))
}

/// No poll within a test: what is noticed, is noticed by a report of the change.
fn options(concurrency: u32, prefetch: u32) -> PoolOptions {
    PoolOptions {
        worker: "w".into(),
        queues: None,
        lease: 60 * SECOND,
        concurrency,
        prefetch,
        timeout: None,
        poll: Duration::from_secs(60),
    }
}

fn pool(engine: &Engine, concurrency: u32, prefetch: u32) -> Pool {
    engine.start_pool(options(concurrency, prefetch), None, None).unwrap()
}

fn ingest(engine: &Engine, jobs: impl IntoIterator<Item = NewJob>) {
    engine.store().ingest(jobs.into_iter().collect()).wait().unwrap();
}

fn numbered(count: usize) -> Vec<NewJob> {
    (0..count).map(|number| job(&format!("{number:04}"))).collect()
}

fn state(engine: &Engine, job_id: &str) -> State {
    engine.store().read(vec![job_id.into()]).wait().unwrap().remove(0).unwrap().state
}

fn outcome(engine: &Engine, job_id: &str) -> Option<OutcomeKind> {
    match state(engine, job_id) {
        State::Settled { outcome, .. } => Some(outcome),
        _ => None,
    }
}

fn next(pool: &Pool) -> Assignment {
    let mut woken = false;
    loop {
        if let Some(assignment) = pool.take(woken) {
            return assignment;
        }
        assert!(pool.wait_for_job(), "the pool has ended");
        woken = true;
    }
}

fn completed() -> Ending {
    Ending::Reported(Report::Completed { result: None })
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[test]
fn many_executors_run_every_job_once() {
    let Fixture { engine, .. } = &fixture();
    for prefetch in [0, 50] {
        ingest(engine, (0..500).map(|number| job(&format!("{prefetch}-{number}"))));
        let pool = pool(engine, 8, prefetch);
        let runs = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut woken = false;
                    loop {
                        if let Some(assignment) = pool.take(woken) {
                            runs.lock().unwrap().push(assignment.claim.job_id.clone());
                            pool.finish([(assignment.slot, completed())]);
                            woken = false;
                        } else if pool.wait_for_job() {
                            woken = true;
                        } else {
                            return;
                        }
                    }
                });
            }
            assert!(pool.wait_drained(soon()));
            pool.drain();
        });
        let mut runs = runs.into_inner().unwrap();
        runs.sort();
        runs.dedup();
        assert_eq!((runs.len(), pool.stats().counts.completed, pool.stats().counts.started), (500, 500, 500));
        assert_eq!(engine.keeper().held(), 0);
    }
    assert!(!engine.store().has_pending_work().wait().unwrap());
}

#[test]
fn an_idle_pool_hears_of_a_job_from_here_and_from_elsewhere() {
    let Fixture { engine, folder } = &fixture();
    let pool = pool(engine, 1, 0);
    assert!(pool.wait_drained(soon()));
    let other = open(folder);
    for (number, admits) in [engine, &other, engine, &other].into_iter().enumerate() {
        ingest(admits, [job(&number.to_string())]);
        let assignment = next(&pool);
        assert_eq!(assignment.claim.job_id, number.to_string());
        pool.finish([(assignment.slot, completed())]);
        assert!(pool.wait_drained(soon()));
    }
}

#[test]
fn a_job_that_is_due_later_is_not_waited_for_a_whole_poll() {
    let Fixture { engine, .. } = &fixture();
    let pool = pool(engine, 1, 0);
    assert!(pool.wait_drained(soon()));
    let began = Instant::now();
    ingest(engine, [NewJob { due: Due::After(SECOND / 5), ..job("later") }]);
    assert_eq!(next(&pool).claim.job_id, "later");
    assert!(began.elapsed() >= Duration::from_millis(200));
}

#[test]
fn no_more_is_claimed_than_there_are_slots_and_asked_for_ahead() {
    let Fixture { engine, .. } = &fixture();
    ingest(engine, numbered(50));
    let pool = pool(engine, 3, 4);
    let running: Vec<_> = (0..3).map(|_| next(&pool)).collect();
    assert_eq!(running.iter().map(|one| one.claim.job_id.as_str()).collect::<Vec<_>>(), ["0000", "0001", "0002"]);
    assert!(pool.take(false).is_none(), "every slot is taken");
    eventually("the pool is full", || pool.stats().waiting == 4);
    assert_eq!(pool.stats().counts.claimed, 7);
    assert_eq!(engine.store().stats(100).wait().unwrap().queues[0].1.running, 7);
}

#[test]
fn draining_hands_back_what_was_not_started_and_records_what_was() {
    let Fixture { engine, .. } = &fixture();
    ingest(engine, numbered(10));
    let pool = pool(engine, 2, 4);
    let (first, second) = (next(&pool), next(&pool));
    eventually("the pool is full", || pool.stats().waiting == 4);
    pool.drain();
    assert!(pool.take(false).is_none());
    assert!(!pool.wait_for_job());
    pool.finish([(first.slot, completed())]);
    assert!(!pool.wait_idle(Instant::now()));
    pool.finish([(second.slot, Ending::Reported(Report::Release))]);
    assert!(pool.wait_idle(soon()) && pool.wait_recorded(soon()));
    assert_eq!(outcome(engine, "0000"), Some(OutcomeKind::Completed));
    for number in 1..10 {
        let record = engine.store().read(vec![format!("{number:04}")]).wait().unwrap().remove(0).unwrap();
        assert!(matches!(record.state, State::Queued { .. }), "{record:?}");
        assert_eq!(record.counters.charged(), 0);
    }
    assert_eq!(engine.keeper().held(), 0);
}

#[test]
fn a_waiting_job_whose_cancellation_is_asked_for_never_starts() {
    let Fixture { engine, .. } = &fixture();
    ingest(engine, numbered(3));
    let pool = pool(engine, 1, 2);
    let first = next(&pool);
    eventually("the others wait", || pool.stats().waiting == 2);
    let asked =
        engine.store().cancel(vec![("0001".into(), "no longer wanted".into())]).wait().unwrap().remove(0).unwrap();
    let crate::management::Cancellation::Requested { key, reason } = asked else { panic!("{asked:?}") };
    engine.keeper().cancel_requested(&key, &reason);
    pool.finish([(first.slot, completed())]);
    assert_eq!(next(&pool).claim.job_id, "0002");
    eventually("the cancelled one is recorded", || outcome(engine, "0001") == Some(OutcomeKind::Cancelled));
}

#[test]
fn a_job_whose_executor_died_is_recovered_at_once() {
    let Fixture { engine, .. } = &fixture();
    let budgets = Budgets { max_attempts: Some(2), max_recoveries: None };
    ingest(engine, [NewJob { budgets, ..job("only") }]);
    let pool = pool(engine, 1, 0);
    for attempt in 1..=2 {
        let assignment = next(&pool);
        assert_eq!(assignment.claim.counters.attempts, attempt);
        pool.finish([(assignment.slot, Ending::Lost("its process died".into()))]);
    }
    eventually("its outcome", || outcome(engine, "only") == Some(OutcomeKind::Interrupted));
    let error = engine.store().read(vec!["only".into()]).wait().unwrap().remove(0).unwrap().error.unwrap();
    assert!(error.contains("its process died"), "{error}");
    assert_eq!((pool.stats().counts.recovered, pool.stats().counts.interrupted), (1, 1));
}

#[test]
fn a_timeout_counts_from_the_start_of_the_executor() {
    let Fixture { engine, .. } = &fixture();
    ingest(engine, [job("first"), NewJob { timeout: Some(SECOND / 5), ..job("second") }]);
    let pool = pool(engine, 1, 1);
    let first = next(&pool);
    eventually("the second waits", || pool.stats().waiting == 1);
    std::thread::sleep(Duration::from_millis(300)); // longer than its timeout
    pool.finish([(first.slot, completed())]);
    let second = next(&pool);
    assert_eq!(second.token.reason(), None);
    assert_eq!(second.token.wait_until(soon()), Some(AbortReason::Timeout));
    pool.finish([(second.slot, completed())]);
    eventually("what it reports is recorded", || outcome(engine, "second") == Some(OutcomeKind::Completed));
}

#[test]
fn a_slot_is_finished_once() {
    let Fixture { engine, .. } = &fixture();
    ingest(engine, numbered(2));
    let pool = pool(engine, 1, 0);
    let first = next(&pool);
    let failed =
        || Ending::Reported(Report::Failed { reason: "no".into(), retry: false, retry_in: None, backoff: None });
    pool.finish([(first.slot, completed()), (first.slot, failed()), (17, failed())]);
    let second = next(&pool);
    assert_eq!(second.claim.job_id, "0001");
    assert_eq!(outcome(engine, "0000"), Some(OutcomeKind::Completed));
}

#[test]
fn a_host_is_notified_instead_of_a_thread_being_woken() {
    let Fixture { engine, .. } = &fixture();
    let notified = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&notified);
    let notify = Box::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let sink = Box::new(move |batch: Vec<crate::engine::events::Event>| {
        seen.lock().unwrap().extend(batch.into_iter().map(|event| (event.kind, event.job_id)));
    });
    let pool = engine.start_pool(options(10, 0), Some(sink), Some(notify)).unwrap();
    ingest(engine, numbered(3));
    eventually("it is told", || notified.load(Ordering::SeqCst) > 0);
    let mut ended = Vec::new();
    while ended.len() < 3 {
        eventually("more jobs", || pool.stats().waiting > 0);
        while let Some(assignment) = pool.take(true) {
            ended.push((assignment.slot, completed()));
        }
    }
    pool.finish(ended);
    assert!(pool.wait_drained(soon()));
    assert!(notified.load(Ordering::SeqCst) <= 3, "once for what comes at once");
    for kind in ["claimed", "completed"] {
        eventually(kind, || events.lock().unwrap().iter().filter(|(of, _)| *of == kind).count() == 3);
    }
}

#[test]
fn a_pool_ends_with_its_store() {
    let Fixture { engine, folder: _folder } = fixture();
    ingest(&engine, numbered(2));
    let pool = pool(&engine, 1, 0);
    let running = next(&pool);
    engine.close();
    pool.finish([(running.slot, completed())]);
    assert!(!pool.wait_for_job());
    assert!(pool.wait_recorded(soon()), "there is nobody to record it");
}
