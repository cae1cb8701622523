//! Ingest: admit new jobs, recognise replays, refuse other content under a known id. Calls that wait together are one
//! transaction, unless one of them is in the way of the others.
//!
//! A transaction of somebody else's that holds an id and has not ended yet is waited for, but not by the others: where a
//! batch meets one, each call goes on alone, and the one that met it comes again until it has waited long enough.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::inbox::Inbox;
use super::lane;
use super::link::Link;
use super::read::read_jobs;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{Time, factor, get, sparse, time};
use crate::completion::Reply;
use crate::job::{Admission, Counters, Due, JobRecord, Micros, NewJob, State};
use crate::store::Ingested;

/// The pause before a call comes again that met a locked id.
const PAUSE: Duration = Duration::from_millis(50);

/// How many jobs one statement admits.
const LARGEST_STATEMENT: usize = 5_000;

/// How many jobs make a batch that takes in no further call.
const LARGEST_BATCH: usize = 10_000;

/// How often an id is looked at that comes and goes meanwhile.
const MOST_LOOKS: u32 = 100;

/// How much longer than others a call may take for each of its jobs.
const PER_JOB: Duration = Duration::from_millis(1);

/// An ingest call.
pub(super) struct Request {
    jobs: Vec<NewJob>,
    asked_at: Instant,
    deadline: Instant,
    /// When the first attempt began whose end is not known.
    uncertain_since: Option<Instant>,
    reply: Reply<Vec<Ingested>>,
}

impl Request {
    pub(super) fn new(shared: &Shared, jobs: Vec<NewJob>, reply: Reply<Vec<Ingested>>) -> Self {
        let more = PER_JOB.saturating_mul(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
        Self { jobs, asked_at: Instant::now(), deadline: shared.deadline() + more, uncertain_since: None, reply }
    }
}

/// Carry out ingest calls until there are no more.
pub(super) async fn serve(shared: Arc<Shared>, mut inbox: Inbox<Request>) {
    let mut link = Link::new(&shared, "ingest");
    let mut waiting: Vec<Request> = Vec::new();
    let mut open = true;
    loop {
        let mut new = Vec::new();
        if open {
            let again_at = (!waiting.is_empty()).then(|| Instant::now() + PAUSE);
            match link.idle(inbox.next(again_at)).await {
                Some(requests) => new = requests,
                None => open = false,
            }
        } else if waiting.is_empty() {
            return link.close().await;
        } else {
            tokio::time::sleep(PAUSE).await;
        }
        // Calls that met a locked id stay apart, and one from another: each would hold the others up again.
        for request in std::mem::take(&mut waiting) {
            waiting.extend(carry_out(&shared, &mut link, vec![request]).await);
        }
        while !new.is_empty() {
            let mut size = 0;
            let count = new.iter().take_while(|request| {
                let fits = size == 0 || size + request.jobs.len() <= LARGEST_BATCH;
                size += request.jobs.len();
                fits
            });
            let batch: Vec<Request> = new.drain(..count.count()).collect();
            waiting.extend(carry_out(&shared, &mut link, batch).await);
        }
    }
}

/// Returns the calls that met a locked row, as long as they may wait.
async fn carry_out(shared: &Shared, link: &mut Link, mut requests: Vec<Request>) -> Vec<Request> {
    let Some(deadline) = requests.iter().map(|request| request.deadline).min() else { return requests };
    let started = Instant::now();
    let result = attempt(shared, link, deadline, &requests).await;
    match result {
        Ok(answers) => {
            let mut admitted = false;
            for (request, answers) in requests.into_iter().zip(answers) {
                admitted |= answers.iter().any(|answer| answer.admission == Admission::Admitted);
                request.reply.send(Ok(answers));
            }
            if admitted {
                shared.changed(true);
            }
            Vec::new()
        }
        Err(fault) if requests.len() > 1 => {
            // Alone, so that none fails or waits for the sake of another.
            if matches!(fault, Fault::Lost(_) | Fault::Late) {
                for request in &mut requests {
                    request.uncertain_since.get_or_insert(started);
                }
            }
            let mut waiting = Vec::new();
            for request in requests {
                waiting.extend(Box::pin(carry_out(shared, link, vec![request])).await);
            }
            waiting
        }
        Err(fault) => {
            let Some(mut request) = requests.pop() else { return Vec::new() };
            let patience = match fault {
                Fault::Busy => (request.asked_at + shared.options.busy_timeout).min(request.deadline),
                Fault::Lost(_) => request.deadline,
                _ => started,
            };
            if matches!(fault, Fault::Lost(_)) {
                request.uncertain_since.get_or_insert(started);
            }
            if Instant::now() < patience && !shared.gives_up() {
                return vec![request];
            }
            request.reply.send(Err(shared.error(fault, request.asked_at)));
            Vec::new()
        }
    }
}

/// The answers to every call.
async fn attempt(
    shared: &Shared,
    link: &mut Link,
    deadline: Instant,
    requests: &[Request],
) -> Result<Vec<Vec<Ingested>>, Fault> {
    let jobs: Vec<&NewJob> = requests.iter().flat_map(|request| &request.jobs).collect();
    let uncertain_since = requests.iter().filter_map(|request| request.uncertain_since).min();
    let mut answers: Vec<Option<Ingested>> = Vec::with_capacity(jobs.len());
    answers.resize_with(jobs.len(), || None);
    let all: Vec<(usize, &NewJob)> = jobs.iter().copied().enumerate().collect();
    if requests.iter().all(|request| request.jobs.len() == 1) && jobs.len() <= LARGEST_STATEMENT {
        // No call has two jobs that must be stored together: what is new is committed in the same round trip, and what
        // turns out not to be is looked at afterwards.
        link.transact(shared.batch(deadline), async |transaction| {
            transaction.ending(admit(transaction, shared, &all, false, &mut answers)).await
        })
        .await?;
        if answers.iter().any(Option::is_none) {
            link.transact(shared.batch(deadline), async |transaction| {
                admit_rest(transaction, shared, &all, uncertain_since, &mut answers).await
            })
            .await?;
        }
    } else {
        link.transact(shared.batch(deadline), async |transaction| {
            for chunk in all.chunks(LARGEST_STATEMENT) {
                admit(transaction, shared, chunk, false, &mut answers).await?;
                if chunk.iter().any(|(place, _)| answers[*place].is_none()) {
                    break; // perhaps for a bounded lane, which no later job is to overtake
                }
            }
            admit_rest(transaction, shared, &all, uncertain_since, &mut answers).await
        })
        .await?;
    }
    let mut answers = answers.into_iter().flatten();
    Ok(requests.iter().map(|request| answers.by_ref().take(request.jobs.len()).collect()).collect())
}

/// Those that were not stored at once: replays, conflicts, and jobs of bounded lanes.
async fn admit_rest(
    transaction: &Transaction<'_>,
    shared: &Shared,
    jobs: &[(usize, &NewJob)],
    uncertain_since: Option<Instant>,
    answers: &mut [Option<Ingested>],
) -> Result<(), Fault> {
    for _ in 0..MOST_LOOKS {
        let mut left = jobs.to_vec();
        left.retain(|(place, _)| answers[*place].is_none());
        if left.is_empty() {
            return Ok(());
        }
        for chunk in left.chunks(LARGEST_STATEMENT) {
            existing(transaction, shared, chunk, uncertain_since, answers).await?;
        }
        // What is not there was held back for its lane, or was there a moment ago.
        left.retain(|(place, _)| answers[*place].is_none());
        let allowed = within_bounds(transaction, shared, left, answers).await?;
        for chunk in allowed.chunks(LARGEST_STATEMENT) {
            admit(transaction, shared, chunk, true, answers).await?;
        }
    }
    Err(Fault::Busy)
}

/// Store those jobs whose id is free: unless bounds were looked at, only those before the first one of a bounded lane.
async fn admit(
    transaction: &Transaction<'_>,
    shared: &Shared,
    jobs: &[(usize, &NewJob)],
    counted: bool,
    answers: &mut [Option<Ingested>],
) -> Result<(), Fault> {
    if jobs.is_empty() {
        return Ok(());
    }
    let column = jobs.iter().map(|(_, job)| *job);
    let ids: Vec<&str> = column.clone().map(|job| job.job_id.as_str()).collect();
    let queues: Vec<&str> = column.clone().map(|job| job.queue.as_str()).collect();
    let lanes: Vec<&str> = column.clone().map(|job| job.lane.as_str()).collect();
    let priorities: Vec<i32> = column.clone().map(|job| job.priority).collect();
    let payloads: Vec<&str> = column.clone().map(|job| job.payload.as_str()).collect();
    let attempts = sparse(column.clone().map(|job| job.budgets.max_attempts.map(i64::from)));
    let recoveries = sparse(column.clone().map(|job| job.budgets.max_recoveries.map(i64::from)));
    let bases = sparse(column.clone().map(|job| job.backoff.map(|backoff| backoff.base)));
    let caps = sparse(column.clone().map(|job| job.backoff.map(|backoff| backoff.cap)));
    let jitters = sparse(column.clone().map(|job| job.backoff.map(|backoff| backoff.jitter)));
    let timeouts = sparse(column.clone().map(|job| job.timeout));
    let at = sparse(column.clone().map(|job| due_at(job.due).map(Time)));
    let after = sparse(column.map(|job| due_after(job.due).map(factor)));
    let params = [
        (&ids as _, Type::TEXT_ARRAY),
        (&queues as _, Type::TEXT_ARRAY),
        (&lanes as _, Type::TEXT_ARRAY),
        (&priorities as _, Type::INT4_ARRAY),
        (&payloads as _, Type::TEXT_ARRAY),
        (&attempts as _, Type::INT8_ARRAY),
        (&recoveries as _, Type::INT8_ARRAY),
        (&bases as _, Type::INT8_ARRAY),
        (&caps as _, Type::INT8_ARRAY),
        (&jitters as _, Type::FLOAT8_ARRAY),
        (&timeouts as _, Type::INT8_ARRAY),
        (&at as _, Type::TIMESTAMPTZ_ARRAY),
        (&after as _, Type::FLOAT8_ARRAY),
        (&counted as _, Type::BOOL),
    ];
    let rows = transaction.query(&shared.sql.ingest, &params).await?;
    for row in &rows {
        // Places count from one.
        let place = usize::try_from(get::<i64>(row, "place")? - 1).unwrap_or(usize::MAX);
        let Some((place, job)) = jobs.get(place) else { continue };
        let record = admitted(job, get(row, "number")?, time(row, "admitted_at")?, time(row, "available_at")?);
        answers[*place] =
            Some(Ingested { admission: Admission::Admitted, record: Some(record), job_id: job.job_id.clone() });
    }
    Ok(())
}

fn due_at(due: Due) -> Option<Micros> {
    match due {
        Due::At(at) => Some(at),
        Due::Now | Due::After(_) => None,
    }
}

fn due_after(due: Due) -> Option<Micros> {
    match due {
        Due::At(_) | Due::Now => None,
        Due::After(delay) => Some(delay),
    }
}

fn admitted(job: &NewJob, number: i64, admitted_at: Micros, available_at: Micros) -> JobRecord {
    JobRecord {
        number,
        job_id: job.job_id.clone(),
        queue: job.queue.clone(),
        lane: job.lane.clone(),
        priority: job.priority,
        payload: job.payload.clone(),
        budgets: job.budgets,
        admitted_at,
        counters: Counters::default(),
        state: State::Queued { available_at },
        result: None,
        error: None,
        evidence: None,
    }
}

/// Ids that are taken: by the same content, or by other content?
async fn existing(
    transaction: &Transaction<'_>,
    shared: &Shared,
    jobs: &[(usize, &NewJob)],
    uncertain_since: Option<Instant>,
    answers: &mut [Option<Ingested>],
) -> Result<(), Fault> {
    const FIELDS: [(&str, &str); 6] = [
        ("same_queue", "queue"),
        ("same_lane", "lane"),
        ("same_priority", "priority"),
        ("same_payload", "payload"),
        ("same_max_attempts", "max_attempts"),
        ("same_max_recoveries", "max_recoveries"),
    ];
    let column = jobs.iter().map(|(_, job)| *job);
    let ids: Vec<&str> = column.clone().map(|job| job.job_id.as_str()).collect();
    let queues: Vec<&str> = column.clone().map(|job| job.queue.as_str()).collect();
    let lanes: Vec<&str> = column.clone().map(|job| job.lane.as_str()).collect();
    let priorities: Vec<i32> = column.clone().map(|job| job.priority).collect();
    let payloads: Vec<&str> = column.clone().map(|job| job.payload.as_str()).collect();
    let attempts: Vec<Option<i64>> = column.clone().map(|job| job.budgets.max_attempts.map(i64::from)).collect();
    let recoveries: Vec<Option<i64>> = column.map(|job| job.budgets.max_recoveries.map(i64::from)).collect();
    let params = [
        (&ids as _, Type::TEXT_ARRAY),
        (&queues as _, Type::TEXT_ARRAY),
        (&lanes as _, Type::TEXT_ARRAY),
        (&priorities as _, Type::INT4_ARRAY),
        (&payloads as _, Type::TEXT_ARRAY),
        (&attempts as _, Type::INT8_ARRAY),
        (&recoveries as _, Type::INT8_ARRAY),
    ];
    let rows = transaction.query(&shared.sql.ingest_existing, &params).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let records: HashMap<String, JobRecord> =
        read_jobs(transaction, shared, &ids).await?.into_iter().map(|job| (job.job_id.clone(), job)).collect();
    for row in &rows {
        let place = usize::try_from(get::<i64>(row, "place")? - 1).unwrap_or(usize::MAX);
        let Some((place, job)) = jobs.get(place) else { continue };
        let Some(record) = records.get(&job.job_id) else { continue };
        let mut different = Vec::new();
        for (column, field) in FIELDS {
            if !get::<bool>(row, column)? {
                different.push(field);
            }
        }
        // An attempt of this very call, whose end was not known, may have stored it.
        let own = uncertain_since.is_some_and(|since| {
            let ago = i64::try_from(since.elapsed().as_micros()).unwrap_or(Micros::MAX);
            time(row, "now").is_ok_and(|now| record.admitted_at >= now.saturating_sub(ago))
        });
        let admission = match different.is_empty() {
            true if own => Admission::Admitted,
            true => Admission::Duplicate,
            false => Admission::Conflict { difference: different.join(", ") },
        };
        answers[*place] = Some(Ingested { admission, record: Some(record.clone()), job_id: job.job_id.clone() });
    }
    Ok(())
}

/// Of jobs that are not there, those whose lanes have room; the others are refused.
async fn within_bounds<'a>(
    transaction: &Transaction<'_>,
    shared: &Shared,
    jobs: Vec<(usize, &'a NewJob)>,
    answers: &mut [Option<Ingested>],
) -> Result<Vec<(usize, &'a NewJob)>, Fault> {
    let lanes: BTreeSet<(&str, &str)> = jobs.iter().map(|(_, job)| (job.queue.as_str(), job.lane.as_str())).collect();
    let mut room = lane::room(transaction, shared, &lanes).await?;
    let mut allowed = Vec::new();
    let mut ids = BTreeSet::new();
    for (place, job) in jobs {
        if !ids.insert(job.job_id.as_str()) {
            continue; // the first one of this id has to be stored or refused before
        }
        match room.get_mut(&(job.queue.clone(), job.lane.clone())) {
            Some(bound) if bound.left == 0 => {
                answers[place] = Some(Ingested {
                    admission: Admission::Refused { limit: bound.limit },
                    record: None,
                    job_id: job.job_id.clone(),
                });
            }
            Some(bound) => {
                bound.left -= 1;
                allowed.push((place, job));
            }
            None => allowed.push((place, job)),
        }
    }
    Ok(allowed)
}
