//! Read: what is known of jobs, whether any is pending, and when the next one is due.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{Json, Time, budgets, counters, get, optional_json, optional_time, outcome_kind, storable, time};
use crate::job::{JobRecord, Micros, State};

/// Jobs by id, in order; `None` for an unknown one.
pub(super) async fn read(
    transaction: &Transaction<'_>,
    shared: &Shared,
    job_ids: &[String],
) -> Result<Vec<Option<JobRecord>>, Fault> {
    let ids: Vec<&str> = job_ids.iter().map(String::as_str).filter(|id| storable(id)).collect();
    let found: HashMap<String, JobRecord> =
        read_jobs(transaction, shared, &ids).await?.into_iter().map(|job| (job.job_id.clone(), job)).collect();
    Ok(job_ids.iter().map(|job_id| found.get(job_id).cloned()).collect())
}

/// Those jobs that are there.
pub(super) async fn read_jobs(
    transaction: &Transaction<'_>,
    shared: &Shared,
    ids: &[&str],
) -> Result<Vec<JobRecord>, Fault> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = transaction.query(&shared.sql.read, &[(&ids, Type::TEXT_ARRAY)]).await?;
    rows.iter().map(record).collect()
}

fn record(row: &Row) -> Result<JobRecord, Fault> {
    let state = if get(row, "is_queued")? {
        State::Queued { available_at: time(row, "available_at")? }
    } else if get(row, "is_running")? {
        State::Running {
            worker: get(row, "worker")?,
            claimed_at: time(row, "claimed_at")?,
            lease_until: optional_time(row, "lease_until")?,
            cancel_requested_at: optional_time(row, "cancel_requested_at")?,
            cancel_reason: get(row, "cancel_reason")?,
        }
    } else {
        State::Settled {
            outcome: outcome_kind(row)?,
            settled_at: time(row, "settled_at")?,
            worker: get(row, "worker")?,
        }
    };
    Ok(JobRecord {
        number: get(row, "number")?,
        job_id: get(row, "job_id")?,
        queue: get(row, "queue")?,
        lane: get(row, "lane")?,
        priority: get(row, "priority")?,
        payload: get::<Json>(row, "payload")?.0,
        budgets: budgets(row)?,
        admitted_at: time(row, "admitted_at")?,
        counters: counters(row)?,
        state,
        result: optional_json(row, "result")?,
        error: get(row, "error")?,
        evidence: optional_json(row, "evidence")?,
    })
}

pub(super) async fn has_pending_work(transaction: &Transaction<'_>, shared: &Shared) -> Result<bool, Fault> {
    let rows = transaction.last(&shared.sql.has_pending_work, &[]).await?;
    rows.first().map_or(Ok(false), |row| get(row, "pending"))
}

pub(super) async fn next_wake(transaction: &Transaction<'_>, shared: &Shared) -> Result<Option<Micros>, Fault> {
    next_due(transaction, shared, None, false).await.map(|(_, next)| next)
}

/// The time, and when the next job of some queues is due or the next lease ends; `later`: only what is not due yet.
pub(super) async fn next_due(
    transaction: &Transaction<'_>,
    shared: &Shared,
    queues: Option<&[String]>,
    later: bool,
) -> Result<(Micros, Option<Micros>), Fault> {
    let known = {
        let levels = shared.levels();
        if levels.is_thorough_due() { super::levels::Known::default() } else { levels.known(queues) }
    };
    let all = queues.is_none();
    let queues: Vec<&str> = queues.iter().copied().flatten().map(String::as_str).collect();
    let params = [
        (&known.queues as _, Type::TEXT_ARRAY),
        (&known.priorities as _, Type::INT4_ARRAY),
        (&known.since as _, Type::TIMESTAMPTZ_ARRAY),
        (&queues as _, Type::TEXT_ARRAY),
        (&all as _, Type::BOOL),
        (&later as _, Type::BOOL),
    ];
    let rows = transaction.last(&shared.sql.next_wake, &params).await?;
    let row = rows.first().ok_or_else(|| Fault::broken("no time was returned".into()))?;
    Ok((time(row, "now")?, get::<Option<Time>>(row, "next")?.map(|next| next.0)))
}
