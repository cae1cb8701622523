//! Read: what is known of jobs, whether any is pending, and when the next one is due.

use rusqlite::Row;

use super::claim;
use super::rows;
use super::transaction::Transaction;
use crate::error::Result;
use crate::job::{JobRecord, Micros, State};
use crate::store::sql;

pub(super) fn read(transaction: &Transaction<'_>, job_ids: &[String]) -> Result<Vec<Option<JobRecord>>> {
    job_ids.iter().map(|job_id| read_one(transaction, job_id)).collect()
}

pub(super) fn read_one(transaction: &Transaction<'_>, job_id: &str) -> Result<Option<JobRecord>> {
    let mut statement = transaction.prepare(sql::sqlite::READ)?;
    let now = transaction.now();
    // Ends of leases are kept in uptime; people read wall time.
    rows::one_row(transaction, &mut statement, [job_id], |row| record(row, now.wall - now.uptime))
}

fn record(row: &Row<'_>, wall_minus_uptime: Micros) -> rusqlite::Result<JobRecord> {
    let state = if row.get("is_queued")? {
        State::Queued { available_at: row.get("available_at")? }
    } else if row.get("is_running")? {
        State::Running {
            worker: row.get("worker")?,
            claimed_at: row.get("claimed_at")?,
            lease_until: row.get::<_, Option<Micros>>("lease_until")?.map(|until| until + wall_minus_uptime),
            cancel_requested_at: row.get("cancel_requested_at")?,
            cancel_reason: row.get("cancel_reason")?,
        }
    } else {
        let outcome = rows::outcome_kind(row, row.as_ref().column_index("kind")?)?;
        State::Settled { outcome, settled_at: row.get("settled_at")?, worker: row.get("worker")? }
    };
    Ok(JobRecord {
        number: row.get("number")?,
        job_id: row.get("job_id")?,
        queue: row.get("queue")?,
        lane: row.get("lane")?,
        priority: row.get("priority")?,
        payload: row.get("payload")?,
        budgets: rows::budgets(row, 6)?,
        admitted_at: row.get("admitted_at")?,
        counters: rows::counters(row, 10)?,
        state,
        result: row.get("result")?,
        error: row.get("error")?,
        evidence: row.get("evidence")?,
    })
}

pub(super) fn has_pending_work(transaction: &Transaction<'_>) -> Result<bool> {
    let mut statement = transaction.prepare(sql::sqlite::HAS_PENDING_WORK)?;
    Ok(rows::one_row(transaction, &mut statement, [], |row| row.get(0))?.unwrap_or(false))
}

pub(super) fn next_wake(transaction: &Transaction<'_>) -> Result<Option<Micros>> {
    next(transaction, None)
}

/// In how long something of some queues is due.
pub(super) fn next_due(transaction: &Transaction<'_>, queues: Option<&[String]>) -> Result<Option<Micros>> {
    let now = transaction.now().wall;
    Ok(next(transaction, queues)?.map(|next| (next - now).max(0)))
}

/// After the wall clock was set back, jobs that may run at once are due now, whatever they say: the next write transaction
/// puts them right.
fn next(transaction: &Transaction<'_>, queues: Option<&[String]>) -> Result<Option<Micros>> {
    let now = transaction.now();
    let mut lease = transaction.prepare(sql::sqlite::NEXT_WAKE_LEASE)?;
    let mut next: Option<Micros> = rows::one_row(transaction, &mut lease, [], |row| row.get::<_, Option<Micros>>(0))?
        .flatten()
        .map(|until| until + (now.wall - now.uptime));
    if transaction.clock_was_set_back()? {
        let mut overtaken = transaction.prepare(sql::sqlite::NEXT_WAKE_OVERTAKEN)?;
        if rows::one_row(transaction, &mut overtaken, [now.wall], |row| row.get(0))?.unwrap_or(false) {
            next = next.into_iter().chain([now.wall]).min();
        }
    }
    let mut ready = transaction.prepare(sql::sqlite::NEXT_WAKE_READY)?;
    let levels = match queues {
        None => claim::top_levels(transaction)?,
        Some(queues) => {
            let mut levels = Vec::new();
            for queue in queues {
                levels.extend(claim::next_priority(transaction, queue, None)?.map(|top| (top, queue.clone())));
            }
            levels
        }
    };
    for (top, queue) in levels {
        let mut level = Some(top);
        while let Some(priority) = level {
            let due: Option<Micros> =
                rows::one_row(transaction, &mut ready, rusqlite::params![queue, priority], |row| row.get(0))?;
            next = next.into_iter().chain(due).min();
            level = claim::next_priority(transaction, &queue, Some(priority))?;
        }
    }
    Ok(next)
}
