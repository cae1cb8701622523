//! The lease keeper, on a clock that is moved by hand.

use std::sync::Arc;

use super::{eventually, job};
use crate::clock::{Clock, FakeClock};
use crate::engine::Engine;
use crate::engine::cancellation::AbortReason;
use crate::engine::lease::Keep;
use crate::job::{Claim, ClaimName, ClaimRequest, Micros, Report, SECOND, State};
use crate::options::SqliteOptions;
use crate::store::sqlite::SqliteStore;

const LEASE: Micros = 8 * SECOND;

struct Fixture {
    _folder: tempfile::TempDir,
    clock: FakeClock,
    engine: Engine,
    claim: Claim,
}

/// An engine with one claimed job.
fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(1_750_000_000 * SECOND);
    let options = SqliteOptions { clock: Arc::new(clock.clone()), ..SqliteOptions::default() };
    let engine = Engine::new(Arc::new(SqliteStore::open(&folder.path().join("jobs.sqlite"), &options).unwrap()));
    engine.store().ingest(vec![job("only")]).wait().unwrap();
    let claim = claim(&engine, "first").remove(0);
    Fixture { _folder: folder, clock, engine, claim }
}

fn claim(engine: &Engine, lease_token: &str) -> Vec<Claim> {
    let request = ClaimRequest {
        lease_token: lease_token.into(),
        worker: "w".into(),
        queues: None,
        limit: 1,
        lease: Some(LEASE),
        look_ahead: false,
    };
    engine.store().claim(request).wait().unwrap().claims
}

fn keep(claim: &Claim, clock: &FakeClock, timeout: Option<Micros>) -> Keep {
    Keep { key: claim.key.clone(), lease: Some(LEASE), timeout, asked_at: clock.now().uptime }
}

fn lease_until(engine: &Engine) -> Option<Micros> {
    match engine.store().read(vec!["only".into()]).wait().unwrap().remove(0).unwrap().state {
        State::Running { lease_until, .. } => lease_until,
        _ => None,
    }
}

#[test]
fn a_kept_claim_outlives_its_lease() {
    let Fixture { clock, engine, claim: kept, .. } = &fixture();
    let token = engine.keep_fresh(keep(kept, clock, None)).unwrap().unwrap();
    for _ in 0..20 {
        let before = lease_until(engine);
        clock.advance(LEASE / 4);
        eventually("a renewal", || lease_until(engine) > before);
    }
    assert_eq!(token.reason(), None);
    assert!(claim(engine, "second").is_empty());
    engine.keeper().let_go(&kept.key);
    clock.advance(LEASE);
    assert_eq!(claim(engine, "second").len(), 1);
}

#[test]
fn a_claim_that_was_replaced_aborts_its_token() {
    let Fixture { clock, engine, claim: kept, .. } = &fixture();
    clock.advance(LEASE);
    assert_eq!(claim(engine, "second").len(), 1);
    // As if this process had been suspended: it believes its claim to be fresh.
    let token = engine.keep_fresh(keep(kept, clock, None)).unwrap().unwrap();
    clock.advance(LEASE / 4);
    eventually("the abort", || token.reason() == Some(AbortReason::LeaseLost));
    assert_eq!(engine.keeper().held(), 0);
}

#[test]
fn a_lease_that_ran_out_is_given_up_whatever_the_store_says() {
    let Fixture { clock, engine, claim: kept, .. } = &fixture();
    let token = engine.keep_fresh(keep(kept, clock, None)).unwrap().unwrap();
    clock.advance(LEASE);
    assert_eq!(token.reason(), Some(AbortReason::LeaseLost));
    eventually("the keeper to let go", || engine.keeper().held() == 0);
}

#[test]
fn a_claim_that_comes_late_is_not_started() {
    let Fixture { clock, engine, claim: kept, .. } = &fixture();
    let late = keep(kept, clock, None);
    clock.advance(LEASE / 2 + 1);
    assert!(engine.keep_fresh(late).unwrap().is_none());
}

#[test]
fn a_settled_claim_is_kept_no_longer() {
    let Fixture { clock, engine, claim: kept, .. } = &fixture();
    engine.keep_fresh(keep(kept, clock, None)).unwrap();
    let report = (ClaimName::Number(kept.key.clone()), Report::Completed { result: None });
    engine.store().settle(vec![report]).wait().unwrap();
    engine.keeper().let_go(&kept.key);
    assert_eq!(engine.keeper().held(), 0);
}

#[test]
fn an_executor_that_takes_too_long_is_told_and_keeps_its_claim() {
    let Fixture { clock, engine, claim: kept, .. } = &fixture();
    let token = engine.keep_fresh(keep(kept, clock, Some(3 * SECOND))).unwrap().unwrap();
    let before = lease_until(engine);
    clock.advance(2 * SECOND);
    eventually("a renewal", || lease_until(engine) > before);
    assert_eq!(token.reason(), None);
    let before = lease_until(engine);
    clock.advance(2 * SECOND);
    eventually("the abort", || token.reason() == Some(AbortReason::Timeout));
    eventually("a renewal", || lease_until(engine) > before);
    assert_eq!(engine.keeper().held(), 1);
}
