//! Reading and writing rows, for every operation alike.

use rusqlite::{CachedStatement, Params, Row, params};

use super::transaction::Transaction;
use crate::error::{Error, Result};
use crate::job::{Backoff, Budgets, ClaimName, Counters, Due, Micros, NewJob, OutcomeKind};
use crate::store::sql;

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

/// Run a statement that returns no rows.
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

/// Queue a job. Returns when it is due.
pub(super) fn put_ready(
    transaction: &Transaction<'_>,
    statement: &mut CachedStatement<'_>,
    number: i64,
    place: Place<'_>,
    due: Due,
    counters: Counters,
    last: LastReport<'_>,
    error: Option<&str>,
) -> Result<Micros> {
    let now = transaction.now().wall;
    let available_at = match due {
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
            place.queue,
            place.lane,
            place.priority,
            available_at,
            held,
            counters.attempts,
            counters.given_back,
            counters.recoveries,
            last.token,
            last.report,
            error,
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
