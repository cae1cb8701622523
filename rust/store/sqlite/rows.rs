//! Reading and writing rows, for every operation alike.

use rusqlite::{CachedStatement, Params, Row, params};

use super::transaction::Transaction;
use crate::error::{Error, Result};
use crate::job::{Backoff, Budgets, ClaimName, Counters, Due, Micros, NewJob, OutcomeKind};
use crate::store::sql;
use crate::transition::{CancelRequest, Rules};

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

/// All rows that a statement returns.
pub(super) fn all_rows<T>(
    transaction: &Transaction<'_>,
    statement: &mut CachedStatement<'_>,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let step = |statement: &mut CachedStatement<'_>| -> rusqlite::Result<Vec<T>> {
        let mut rows = statement.query(params)?;
        let mut values = Vec::new();
        while let Some(row) = rows.next()? {
            values.push(read(row)?);
        }
        Ok(values)
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
        ClaimName::JobId { job_id, .. } => number_of_job(transaction, job_id),
    }
}

/// The order number of a job; an error where there is none of that id.
pub(super) fn number_of_job(transaction: &Transaction<'_>, job_id: &str) -> Result<i64> {
    let mut find = transaction.prepare(sql::sqlite::FIND_JOB)?;
    one_row(transaction, &mut find, [job_id], |row| row.get(0))?
        .ok_or_else(|| Error::JobNotFound { job_id: job_id.to_owned() })
}

/// In a batch, a job that is not there is the answer to its own request; any other error is the whole batch's.
pub(super) fn own_answer<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(error @ Error::JobNotFound { .. }) => Ok(Err(error)),
        other => other.map(Ok),
    }
}

/// A queued job.
pub(super) struct FoundReady {
    pub(super) number: i64,
    pub(super) counters: Counters,
    pub(super) last_token: Option<String>,
    pub(super) last_report: Option<String>,
}

impl FoundReady {
    /// Six columns, the order number first.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { number: row.get(0)?, counters: counters(row, 1)?, last_token: row.get(4)?, last_report: row.get(5)? })
    }
}

/// Look for a queued job.
pub(super) fn find_ready(transaction: &Transaction<'_>, number: i64) -> Result<Option<FoundReady>> {
    let mut find = transaction.prepare(sql::sqlite::FIND_READY)?;
    one_row(transaction, &mut find, [number], FoundReady::read)
}

/// Look for a settled job.
pub(super) fn find_outcome(transaction: &Transaction<'_>, number: i64) -> Result<Option<(OutcomeKind, Counters)>> {
    let mut find = transaction.prepare(sql::sqlite::FIND_OUTCOME)?;
    one_row(transaction, &mut find, [number], |row| Ok((outcome_kind(row, 0)?, counters(row, 1)?)))
}

/// What putting a job back needs to know of it.
pub(super) struct PlaceAndRules {
    pub(super) queue: String,
    pub(super) lane: String,
    pub(super) priority: i32,
    pub(super) rules: Rules,
}

/// Its place in the order, and its budgets.
pub(super) fn place_and_rules(transaction: &Transaction<'_>, number: i64) -> Result<PlaceAndRules> {
    let mut statement = transaction.prepare(sql::sqlite::SETTLE_JOB)?;
    let found = one_row(transaction, &mut statement, [number], |row| {
        Ok(PlaceAndRules {
            queue: row.get(0)?,
            lane: row.get(1)?,
            priority: row.get(2)?,
            rules: Rules { budgets: budgets(row, 3)?, backoff: backoff(row, 5)? },
        })
    })?;
    found.ok_or_else(|| Error::JobNotFound { job_id: format!("number {number}") })
}

/// The lease row of a claim that still holds.
pub(super) struct HeldClaim {
    pub(super) worker: String,
    pub(super) counters: Counters,
    pub(super) cancel: Option<CancelRequest>,
}

/// Look for a claim that still holds.
pub(super) fn held_claim(
    transaction: &Transaction<'_>,
    find: &mut CachedStatement<'_>,
    number: i64,
    token: &str,
) -> Result<Option<HeldClaim>> {
    one_row(transaction, find, params![number, token, transaction.now().uptime], |row| {
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
    transaction.queued();
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

/// The kind that a stored word means.
pub(super) fn outcome_kind(row: &Row<'_>, column: usize) -> rusqlite::Result<OutcomeKind> {
    let word: String = row.get(column)?;
    OutcomeKind::parse(&word).ok_or_else(|| {
        let problem = format!("unknown outcome {word:?}");
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, problem.into())
    })
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
