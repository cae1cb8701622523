//! The engine alone: one step of a job's life, in batches, on an SQLite file with `synchronous=FULL`.
//!
//! Each figure is the time of one call, and jobs per second beside it. The other two steps are done outside the measured
//! time, so that the tables do not grow with the number of samples: jobs are settled and purged again.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bandog::job::{Budgets, Claim, ClaimName, ClaimRequest, Due, NewJob, OutcomeKind, Report, SECOND};
use bandog::management::PurgeRequest;
use bandog::options::SqliteOptions;
use bandog::store::Store;
use bandog::store::sqlite::SqliteStore;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const BATCHES: [u32; 3] = [1, 100, 1000];

/// A store on a file of its own, and a counter for job ids.
struct Bench {
    store: SqliteStore,
    next: u64,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::open(&folder.path().join("jobs.sqlite"), &SqliteOptions::default()).expect("a store");
        Self { store, next: 0, _folder: folder }
    }

    fn jobs(&mut self, count: u32) -> Vec<NewJob> {
        (0..count)
            .map(|_| {
                self.next += 1;
                NewJob {
                    job_id: format!("job-{:020}", self.next),
                    queue: "default".into(),
                    lane: "default".into(),
                    priority: 0,
                    payload: r#"{"n":1,"to":"ada@example.org"}"#.into(),
                    budgets: Budgets::default(),
                    backoff: None,
                    timeout: None,
                    due: Due::Now,
                }
            })
            .collect()
    }

    fn ingest(&self, jobs: Vec<NewJob>) {
        black_box(self.store.ingest(jobs).wait().expect("ingest"));
    }

    fn claim(&mut self, limit: u32) -> Vec<Claim> {
        self.next += 1;
        let request = ClaimRequest {
            lease_token: Arc::from(format!("token-{:026}", self.next)),
            worker: "bench".into(),
            queues: Some(vec!["default".into()]),
            limit,
            lease: Some(120 * SECOND),
            look_ahead: false,
        };
        let claimed = self.store.claim(request).wait().expect("claim");
        assert_eq!(claimed.claims.len(), limit as usize);
        claimed.claims
    }

    fn settle(&self, claims: Vec<Claim>) {
        let reports = claims
            .into_iter()
            .map(|claim| (ClaimName::Number(claim.key), Report::Completed { result: None }))
            .collect();
        black_box(self.store.settle(reports).wait().expect("settle"));
    }

    fn purge(&self) {
        let request = PurgeRequest { older_than: 0, outcomes: vec![OutcomeKind::Completed], limit: 100_000 };
        self.store.purge(request).wait().expect("purge");
    }
}

/// Measure one step; the others are done around it.
fn step(criterion: &mut Criterion, name: &str, measured: fn(&mut Bench, u32) -> Duration) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20).measurement_time(Duration::from_secs(4));
    for batch in BATCHES {
        let mut bench = Bench::new();
        group.throughput(Throughput::Elements(u64::from(batch)));
        group.bench_function(BenchmarkId::from_parameter(batch), |bencher| {
            bencher.iter_custom(|times| {
                let total = (0..times).map(|_| measured(&mut bench, batch)).sum();
                bench.purge();
                total
            });
        });
        bench.store.close();
    }
    group.finish();
}

fn ingest(criterion: &mut Criterion) {
    step(criterion, "ingest", |bench, batch| {
        let jobs = bench.jobs(batch);
        let started = Instant::now();
        bench.ingest(jobs);
        let taken = started.elapsed();
        let claims = bench.claim(batch);
        bench.settle(claims);
        taken
    });
}

fn claim(criterion: &mut Criterion) {
    step(criterion, "claim", |bench, batch| {
        let jobs = bench.jobs(batch);
        bench.ingest(jobs);
        let started = Instant::now();
        let claims = bench.claim(batch);
        let taken = started.elapsed();
        bench.settle(claims);
        taken
    });
}

fn settle(criterion: &mut Criterion) {
    step(criterion, "settle", |bench, batch| {
        let jobs = bench.jobs(batch);
        bench.ingest(jobs);
        let claims = bench.claim(batch);
        let started = Instant::now();
        bench.settle(claims);
        started.elapsed()
    });
}

criterion_group!(benches, ingest, claim, settle);
criterion_main!(benches);
