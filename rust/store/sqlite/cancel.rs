//! Cancel: a queued job never runs; a running one is asked to stop.

use rusqlite::params;

use super::rows::{self, LastReport, OutcomeRow};
use super::transaction::{Landmark, Transaction};
use crate::error::{Error, Result};
use crate::job::{ClaimKey, OutcomeKind};
use crate::management::Cancellation;
use crate::store::sql;

pub(super) fn cancel(transaction: &Transaction<'_>, jobs: &[(String, String)]) -> Result<Vec<Result<Cancellation>>> {
    let mut answers = Vec::with_capacity(jobs.len());
    for (job_id, reason) in jobs {
        answers.push(rows::own_answer(cancel_one(transaction, job_id, reason))?);
    }
    Ok(answers)
}

fn cancel_one(transaction: &Transaction<'_>, job_id: &str, reason: &str) -> Result<Cancellation> {
    let number = rows::number_of_job(transaction, job_id)?;
    if let Some(ready) = rows::find_ready(transaction, number)? {
        settle_queued(transaction, &ready, OutcomeKind::Cancelled, reason)?;
        return Ok(Cancellation::Cancelled);
    }
    let mut ask = transaction.prepare(sql::sqlite::CANCEL)?;
    if rows::run(transaction, &mut ask, params![number, transaction.now().wall, reason])? > 0 {
        transaction.wrote(|| Landmark::CancelRequest(number));
    }
    let mut claim = transaction.prepare(sql::sqlite::CANCEL_CLAIM)?;
    let running = rows::one_row(transaction, &mut claim, [number], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
    })?;
    if let Some((lease_token, reason)) = running {
        let key = ClaimKey { number, lease_token: lease_token.into() };
        return Ok(Cancellation::Requested { key, reason: reason.unwrap_or_default() });
    }
    let outcome = rows::find_outcome(transaction, number)?;
    let (kind, _) = outcome.ok_or_else(|| Error::JobNotFound { job_id: job_id.to_owned() })?;
    Ok(Cancellation::Settled(kind))
}

/// A queued job that is settled without having been claimed again.
pub(super) fn settle_queued(
    transaction: &Transaction<'_>,
    ready: &rows::FoundReady,
    kind: OutcomeKind,
    reason: &str,
) -> Result<()> {
    let mut take = transaction.prepare(sql::sqlite::TAKE_READY)?;
    rows::run(transaction, &mut take, [ready.number])?;
    let mut put = transaction.prepare(sql::sqlite::PUT_OUTCOME)?;
    let outcome = OutcomeRow {
        kind,
        worker: None,
        counters: ready.counters,
        result: None,
        error: Some(reason),
        evidence: None,
        last: LastReport { token: ready.last_token.as_deref(), report: ready.last_report.as_deref() },
    };
    rows::put_outcome(transaction, &mut put, ready.number, &outcome)?;
    transaction.wrote(|| Landmark::Outcome(ready.number));
    Ok(())
}
