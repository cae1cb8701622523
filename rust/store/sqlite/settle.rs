//! Settle: end claims with what their holders report.

use rusqlite::params;

use super::rows::{self, LastReport, OutcomeRow, Place, ReadyRow};
use super::transaction::{Landmark, Transaction};
use crate::error::{Error, Result};
use crate::job::{ClaimName, Micros, OutcomeKind, Report, Settlement};
use crate::store::sql;
use crate::transition::{self, Next, Rules};

pub(super) fn settle(
    transaction: &Transaction<'_>,
    reports: Vec<(ClaimName, Report)>,
) -> Result<Vec<Result<Settlement>>> {
    let mut answers = Vec::with_capacity(reports.len());
    for (claim, report) in reports {
        answers.push(match settle_one(transaction, &claim, report) {
            Err(error @ Error::JobNotFound { .. }) => Err(error),
            other => Ok(other?),
        });
    }
    Ok(answers)
}

fn settle_one(transaction: &Transaction<'_>, claim: &ClaimName, report: Report) -> Result<Settlement> {
    let number = rows::number_of(transaction, claim)?;
    let token = claim.lease_token();
    let Some(ended) = rows::held_claim(transaction, number, token)? else {
        return recorded(transaction, number, token);
    };
    let mut end = transaction.prepare(sql::sqlite::SETTLE)?;
    rows::run(transaction, &mut end, params![number, token, transaction.now().uptime])?;
    transaction.wrote(|| Landmark::NoLease(number, token.to_owned()));

    let needs_rules = transition::needs_rules(&report);
    let (place, rules) = match needs_rules {
        true => place_and_rules(transaction, number)?,
        false => (OwnedPlace::default(), Rules::default()),
    };
    match transition::after_report(report, ended.counters, &rules, ended.cancel.as_ref(), fastrand::f64()) {
        Next::Settle { kind, counters, result, error, evidence } => {
            let mut put = transaction.prepare(sql::sqlite::PUT_OUTCOME)?;
            let outcome = OutcomeRow {
                kind,
                worker: Some(&ended.worker),
                counters,
                result: result.as_deref(),
                error: error.as_deref(),
                evidence: evidence.as_deref(),
                // The report is the kind itself.
                last: LastReport { token: Some(token), report: None },
            };
            rows::put_outcome(transaction, &mut put, number, &outcome)?;
            Ok(Settlement::Settled(kind))
        }
        Next::PutBack { counters, due, error, answer } => {
            let mut put = transaction.prepare(sql::sqlite::PUT_READY)?;
            let report = answer.map(|answer| answer.settlement(None));
            let last = LastReport { token: Some(token), report: report.as_ref().map(Settlement::as_str) };
            let place = Place { queue: &place.queue, lane: &place.lane, priority: place.priority };
            let ready = ReadyRow { place, due, counters, last, error: error.as_deref() };
            let at = rows::put_ready(transaction, &mut put, number, &ready)?;
            Ok(answer.map_or(Settlement::Released, |answer| answer.settlement(Some(at))))
        }
    }
}

#[derive(Default)]
struct OwnedPlace {
    queue: String,
    lane: String,
    priority: i32,
}

fn place_and_rules(transaction: &Transaction<'_>, number: i64) -> Result<(OwnedPlace, Rules)> {
    let mut statement = transaction.prepare(sql::sqlite::SETTLE_JOB)?;
    let found = rows::one_row(transaction, &mut statement, [number], |row| {
        Ok((
            OwnedPlace { queue: row.get(0)?, lane: row.get(1)?, priority: row.get(2)? },
            Rules { budgets: rows::budgets(row, 3)?, backoff: rows::backoff(row, 5)? },
        ))
    })?;
    found.ok_or_else(|| Error::JobNotFound { job_id: format!("number {number}") })
}

/// No such claim now. Did this token end it earlier? Then the answer that was lost is given again.
fn recorded(transaction: &Transaction<'_>, number: i64, token: &str) -> Result<Settlement> {
    let mut statement = transaction.prepare(sql::sqlite::SETTLE_RECORDED)?;
    let found = rows::one_row(transaction, &mut statement, params![number, token], |row| {
        Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<Micros>>(1)?))
    })?;
    let Some((Some(report), available_at)) = found else { return Ok(Settlement::Stale) };
    Ok(match report.as_str() {
        "retried" => Settlement::Retried { available_at },
        "snoozed" => Settlement::Snoozed { available_at },
        "released" => Settlement::Released,
        kind => OutcomeKind::parse(kind).map_or(Settlement::Stale, Settlement::Settled),
    })
}
