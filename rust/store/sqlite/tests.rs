//! The store without Python: group commit, failed commits, clocks. The operations themselves are held to their promises by
//! the conformance suite, on every store alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::clock::FakeClock;
use crate::job::{Admission, Budgets, ClaimKey, Due, NewJob, OutcomeKind, SECOND, State};

const START: Micros = 1_750_000_000 * SECOND;

struct Fixture {
    folder: TempDir,
    clock: FakeClock,
    store: SqliteStore,
}

fn options(clock: &FakeClock) -> SqliteOptions {
    SqliteOptions {
        clock: Arc::new(clock.clone()),
        busy_timeout: Duration::from_millis(200),
        ..SqliteOptions::default()
    }
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(START);
    let store = SqliteStore::open(&folder.path().join("jobs.sqlite"), &options(&clock)).unwrap();
    Fixture { folder, clock, store }
}

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

fn request(limit: u32) -> ClaimRequest {
    ClaimRequest {
        lease_token: "token".into(),
        worker: "w".into(),
        queues: None,
        limit,
        lease: Some(10 * SECOND),
        look_ahead: false,
    }
}

fn read(store: &SqliteStore, job_id: &str) -> Option<JobRecord> {
    store.read(vec![job_id.into()]).wait().unwrap().remove(0)
}

/// A failure that the request itself makes: its insert violates a constraint after an earlier insert of it went through.
fn spoil(transaction: &Transaction<'_>) -> Result<()> {
    ingest::ingest(transaction, vec![job("spoilt")])?;
    let mut statement = transaction.prepare("INSERT INTO bandog_outcome (number) VALUES (1)")?;
    rows::run(transaction, &mut statement, [])?;
    Ok(())
}

#[test]
fn every_statement_can_be_prepared() {
    let fixture = fixture();
    let connection = Connection::open(fixture.folder.path().join("jobs.sqlite")).unwrap();
    for (name, text) in crate::store::sql::sqlite::ALL {
        connection.prepare(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_failed_request_spoils_no_other_of_its_group() {
    let fixture = fixture();
    let store = &fixture.store;
    // Nobody waits yet, so that all of them are in the group that the first waiter leads.
    let before = store.ingest(vec![job("before")]);
    let spoilt = store.write(spoil);
    let after = store.ingest(vec![job("after")]);
    assert_eq!(before.wait().unwrap()[0].admission, Admission::Admitted);
    assert!(spoilt.wait().is_err());
    assert_eq!(after.wait().unwrap()[0].admission, Admission::Admitted);
    assert!(read(store, "spoilt").is_none());
    assert!(read(store, "before").is_some() && read(store, "after").is_some());
}

#[test]
fn a_failed_request_alone_leaves_nothing() {
    let fixture = fixture();
    assert!(fixture.store.write(spoil).wait().is_err());
    assert!(read(&fixture.store, "spoilt").is_none());
    assert!(fixture.store.ingest(vec![job("next")]).wait().is_ok());
}

#[test]
fn threads_share_commits_and_each_gets_its_own_answer() {
    let fixture = fixture();
    let admitted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (store, admitted) = (&fixture.store, &admitted);
            scope.spawn(move || {
                for number in 0..50 {
                    let answers = store.ingest(vec![job(&format!("{thread}-{number}"))]).wait().unwrap();
                    assert_eq!(answers[0].job_id, format!("{thread}-{number}"));
                    admitted.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 800);
    assert_eq!(fixture.store.claim(request(1000)).wait().unwrap().claims.len(), 800);
}

#[test]
fn a_completion_that_nobody_waits_for_is_carried_out_all_the_same() {
    let fixture = fixture();
    drop(fixture.store.ingest(vec![job("abandoned")]));
    let (sender, receiver) = mpsc::channel();
    fixture.store.ingest(vec![job("called back")]).on_done(move |answer| sender.send(answer).unwrap());
    assert!(receiver.recv_timeout(Duration::from_secs(10)).unwrap().is_ok());
    assert!(read(&fixture.store, "abandoned").is_some());
    let (sender, receiver) = mpsc::channel();
    fixture.store.has_pending_work().on_done(move |answer| sender.send(answer).unwrap());
    assert_eq!(receiver.recv_timeout(Duration::from_secs(10)).unwrap(), Ok(true));
}

#[test]
fn closing_carries_out_what_was_asked_for_and_refuses_the_rest() {
    let fixture = fixture();
    let asked = fixture.store.ingest(vec![job("asked")]);
    fixture.store.close();
    assert!(asked.wait().is_ok());
    assert_eq!(fixture.store.ingest(vec![job("late")]).wait(), Err(Error::Closed));
    assert_eq!(fixture.store.has_pending_work().wait(), Err(Error::Closed));
    fixture.store.close();
    let again = SqliteStore::open(&fixture.folder.path().join("jobs.sqlite"), &options(&fixture.clock)).unwrap();
    assert!(read(&again, "asked").is_some() && read(&again, "late").is_none());
}

#[test]
fn a_lock_that_another_connection_keeps_is_waited_for_and_then_told() {
    let fixture = fixture();
    let other = Connection::open(fixture.folder.path().join("jobs.sqlite")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Instant::now();
    let error = fixture.store.ingest(vec![job("waits")]).wait().unwrap_err();
    assert!(matches!(error, Error::StoreBusy { waited_ms: 200.., .. }), "{error}");
    assert!(started.elapsed() >= Duration::from_millis(200));
    // Reading goes on meanwhile.
    assert_eq!(fixture.store.has_pending_work().wait(), Ok(false));
    other.execute_batch("COMMIT").unwrap();
    assert!(fixture.store.ingest(vec![job("waits")]).wait().is_ok());
}

/// Has every COMMIT of the store fail until it is dropped: the hook turns it into a rollback.
struct FailingCommits<'a>(&'a SqliteStore);

impl<'a> FailingCommits<'a> {
    fn of(store: &'a SqliteStore) -> Self {
        store.shared.committer.set_commits_fail(true);
        Self(store)
    }
}

impl Drop for FailingCommits<'_> {
    fn drop(&mut self) {
        self.0.shared.committer.set_commits_fail(false);
    }
}

#[test]
fn a_failed_commit_answers_every_request_of_the_group_with_the_failure() {
    let fixture = fixture();
    let store = &fixture.store;
    store.ingest(vec![job("first")]).wait().unwrap();
    let claims = store.claim(request(1)).wait().unwrap().claims;
    let failing = FailingCommits::of(store);
    let ingest = store.ingest(vec![job("second")]);
    let settle = store.settle(vec![(ClaimName::Number(claims[0].key.clone()), Report::Completed { result: None })]);
    assert!(ingest.wait().is_err());
    assert!(settle.wait().is_err());
    drop(failing);
    assert!(read(store, "second").is_none());
    assert!(matches!(read(store, "first").unwrap().state, State::Running { .. }));
    let settled = store.settle(vec![(ClaimName::Number(claims[0].key.clone()), Report::Completed { result: None })]);
    assert_eq!(settled.wait().unwrap()[0], Ok(Settlement::Settled(OutcomeKind::Completed)));
}

#[test]
fn landmarks_tell_whether_a_group_is_there() {
    use super::transaction::Landmark;
    let fixture = fixture();
    fixture.store.ingest(vec![job("only")]).wait().unwrap();
    fixture.store.claim(request(1)).wait().unwrap();
    let until = fixture.clock.now().uptime + 10 * SECOND;
    let connection = Connection::open(fixture.folder.path().join("jobs.sqlite")).unwrap();
    let stands = |landmark: Landmark| landmark.stands(&connection).unwrap();
    assert!(stands(Landmark::Job(1)) && !stands(Landmark::Job(2)));
    assert!(stands(Landmark::Lease(1, "token".into(), Some(until))));
    assert!(!stands(Landmark::Lease(1, "token".into(), Some(until + 1))));
    assert!(!stands(Landmark::NoLease(1, "token".into())) && stands(Landmark::NoLease(1, "other".into())));
}

#[test]
fn a_full_file_is_told_and_heals() {
    let fixture = fixture();
    let store = &fixture.store;
    store.ingest(vec![job("first")]).wait().unwrap();
    let claims = store.claim(request(1)).wait().unwrap().claims;
    store.shared.committer.set_page_limit(30);
    let large = |job_id: &str| NewJob { payload: format!("\"{}\"", "x".repeat(20_000)), ..job(job_id) };
    let error = (0..100).find_map(|number| store.ingest(vec![large(&number.to_string())]).wait().err()).unwrap();
    assert!(matches!(error, Error::StorageFull { .. }), "{error}");
    store.shared.committer.set_page_limit(1_000_000);
    let settled = store.settle(vec![(ClaimName::Number(claims[0].key.clone()), Report::Completed { result: None })]);
    assert_eq!(settled.wait().unwrap()[0], Ok(Settlement::Settled(OutcomeKind::Completed)));
}

#[test]
fn a_claim_is_recovered_after_another_boot() {
    let fixture = fixture();
    fixture.store.ingest(vec![job("only")]).wait().unwrap();
    let claims = fixture.store.claim(request(1)).wait().unwrap().claims;
    fixture.store.close();
    fixture.clock.reboot("second");
    let again = SqliteStore::open(&fixture.folder.path().join("jobs.sqlite"), &options(&fixture.clock)).unwrap();
    let key: ClaimKey = claims[0].key.clone();
    let settled = again.settle(vec![(ClaimName::Number(key), Report::Completed { result: None })]).wait().unwrap();
    assert_eq!(settled[0], Ok(Settlement::Stale));
    assert_eq!(again.recover(10).wait().unwrap().recovered, ["only"]);
}

#[test]
fn statements_of_the_hot_path_are_prepared_once() {
    let fixture = fixture();
    let store = &fixture.store;
    for number in 0..50 {
        store.ingest(vec![job(&number.to_string())]).wait().unwrap();
        let claim = store.claim(request(1)).wait().unwrap().claims.remove(0);
        store.renew(vec![ClaimName::Number(claim.key.clone())], 10 * SECOND).wait().unwrap();
        store.settle(vec![(ClaimName::Number(claim.key), Report::Completed { result: None })]).wait().unwrap();
    }
    let again = store.shared.committer.prepared_again(crate::store::sql::sqlite::ALL);
    assert_eq!(again, Vec::<(&str, i32)>::new(), "prepared anew, so often");
}
