//! Reading and writing rows, for every operation alike.

use rusqlite::{CachedStatement, Params, Row, params};

use super::transaction::Transaction;
use crate::error::{Error, Result};
use crate::job::{Backoff, Budgets, ClaimName, Counters, Due, Micros, NewJob, OutcomeKind};
use crate::store::sql;
use crate::transition::CancelRequest;

/// The one row that a statement returns, if any, stepped to the end: a statement that is left half-way keeps its
/// transaction from being released.
pub(super) fn one_row<T>(
    transaction: &Transaction<'_>,
    statement: &mut CachedStatement<'_>,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    let step = |statement: &mut CachedStatement<'_>| -> rusqlite::Result<Option<T>> {
        let mut rows = statement.query(params)?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let value = read(row)?;
        while rows.next()?.is_some() {}
        Ok(Some(value))
    };
    step(statement).map_err(|error| transaction.failed(&error))
}

/// Run a statement that returns no rows. Returns how many rows it changed.
pub(super) fn run(
    transaction: &Transaction<'_>,
    statement: &mut CachedStatement<'_>,
    params: impl Params,
) -> Result<usize> {
    statement.execute(params).map_err(|error| transaction.failed(&error))
}

/// The order number of the job that a claim is on; an error where there is no such job.
pub(super) fn number_of(transaction: &Transaction<'_>, claim: &ClaimName) -> Result<i64> {
    match claim {
        ClaimName::Number(key) => Ok(key.number),
        ClaimName::JobId { job_id, .. } => {
            let mut find = transaction.prepare(sql::sqlite::FIND_JOB)?;
            one_row(transaction, &mut find, [job_id], |row| row.get(0))?
                .ok_or_else(|| Error::JobNotFound { job_id: job_id.clone() })
        }
    }
}

/// The lease row of a claim that still holds.
pub(super) struct HeldClaim {
    pub(super) worker: String,
    pub(super) counters: Counters,
    pub(super) cancel: Option<CancelRequest>,
}

/// Look for a claim that still holds.
pub(super) fn held_claim(transaction: &Transaction<'_>, number: i64, token: &str) -> Result<Option<HeldClaim>> {
    let mut find = transaction.prepare(sql::sqlite::FIND_CLAIM)?;
    one_row(transaction, &mut find, params![number, token, transaction.now().uptime], |row| {
        Ok(HeldClaim { worker: row.get(0)?, counters: counters(row, 1)?, cancel: cancel_request(row, 4)? })
    })
}

/// Where a queued job stands in the order of claiming.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) queue: &'a str,
    pub(super) lane: &'a str,
    pub(super) priority: i32,
}

impl<'a> Place<'a> {
    pub(super) fn of(job: &'a NewJob) -> Self {
        Self { queue: &job.queue, lane: &job.lane, priority: job.priority }
    }
}

/// What a job carries of the claim that was ended last by its holder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastReport<'a> {
    pub(super) token: Option<&'a str>,
    pub(super) report: Option<&'a str>,
}

/// A queued job, as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadyRow<'a> {
    pub(super) place: Place<'a>,
    pub(super) due: Due,
    pub(super) counters: Counters,
    pub(super) last: LastReport<'a>,
    pub(super) error: Option<&'a str>,
}

/// Queue a job. Returns when it is due.
pub(super) fn put_ready(
    transaction: &Transaction<'_>,
    statement: &mut CachedStatement<'_>,
    number: i64,
    ready: &ReadyRow<'_>,
) -> Result<Micros> {
    let now = transaction.now().wall;
    let available_at = match ready.due {
        Due::Now => now,
        Due::At(at) => at,
        Due::After(delay) => now.saturating_add(delay),
    };
    let held = available_at > now;
    run(
        transaction,
        statement,
        params![
            number,
            ready.place.queue,
            ready.place.lane,
            ready.place.priority,
            available_at,
            held,
            ready.counters.attempts,
            ready.counters.given_back,
            ready.counters.recoveries,
            ready.last.token,
            ready.last.report,
            ready.error,
        ],
    )?;
    Ok(available_at)
}

/// The outcome of a job, as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutcomeRow<'a> {
    pub(super) kind: OutcomeKind,
    pub(super) worker: Option<&'a str>,
    pub(super) counters: Counters,
    pub(super) result: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    pub(super) evidence: Option<&'a str>,
    pub(super) last: LastReport<'a>,
}

/// Settle a job.
pub(super) fn put_outcome(
    transaction: &Transaction<'_>,
    statement: &mut CachedStatement<'_>,
    number: i64,
    outcome: &OutcomeRow<'_>,
) -> Result<()> {
    run(
        transaction,
        statement,
        params![
            number,
            outcome.kind.as_str(),
            transaction.now().wall,
            outcome.worker,
            outcome.counters.attempts,
            outcome.counters.given_back,
            outcome.counters.recoveries,
            outcome.result,
            outcome.error,
            outcome.evidence,
            outcome.last.token,
            outcome.last.report,
        ],
    )?;
    Ok(())
}

/// Three neighbouring columns.
pub(super) fn counters(row: &Row<'_>, first: usize) -> rusqlite::Result<Counters> {
    Ok(Counters { attempts: row.get(first)?, given_back: row.get(first + 1)?, recoveries: row.get(first + 2)? })
}

/// Two neighbouring columns, both NULL where no cancellation was asked for.
pub(super) fn cancel_request(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<CancelRequest>> {
    let asked: Option<Micros> = row.get(first)?;
    let reason: Option<String> = row.get(first + 1)?;
    Ok(asked.map(|_| CancelRequest { reason: reason.unwrap_or_default() }))
}

/// Two neighbouring columns.
pub(super) fn budgets(row: &Row<'_>, first: usize) -> rusqlite::Result<Budgets> {
    Ok(Budgets { max_attempts: row.get(first)?, max_recoveries: row.get(first + 1)? })
}

/// Three neighbouring columns, all NULL where the job has no back-off of its own.
pub(super) fn backoff(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Backoff>> {
    let base: Option<Micros> = row.get(first)?;
    Ok(match base {
        Some(base) => Some(Backoff { base, cap: row.get(first + 1)?, jitter: row.get(first + 2)? }),
        None => None,
    })
}
