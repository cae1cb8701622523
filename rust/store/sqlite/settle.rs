//! Settle: end claims with what their holders report.

use rusqlite::{CachedStatement, params};

use super::rows::{self, LastReport, OutcomeRow, Place, ReadyRow};
use super::transaction::{Landmark, Transaction};
use crate::error::Result;
use crate::job::{ClaimName, Micros, Report, Settlement};
use crate::store::sql;
use crate::transition::{self, Next};

pub(super) fn settle(
    transaction: &Transaction<'_>,
    reports: Vec<(ClaimName, Report)>,
) -> Result<Vec<Result<Settlement>>> {
    let mut answers = Vec::with_capacity(reports.len());
    // Prepared once per call: looking a statement up in the connection's cache costs as much as a third of running it.
    let mut statements = Statements {
        find_claim: transaction.prepare(sql::sqlite::FIND_CLAIM)?,
        settle: transaction.prepare(sql::sqlite::SETTLE)?,
        put_outcome: transaction.prepare(sql::sqlite::PUT_OUTCOME)?,
    };
    for (claim, report) in reports {
        answers.push(rows::own_answer(settle_one(transaction, &mut statements, &claim, report))?);
    }
    Ok(answers)
}

struct Statements<'connection> {
    find_claim: CachedStatement<'connection>,
    settle: CachedStatement<'connection>,
    put_outcome: CachedStatement<'connection>,
}

fn settle_one(
    transaction: &Transaction<'_>,
    statements: &mut Statements<'_>,
    claim: &ClaimName,
    report: Report,
) -> Result<Settlement> {
    let number = rows::number_of(transaction, claim)?;
    let token = claim.lease_token();
    let Some(ended) = rows::held_claim(transaction, &mut statements.find_claim, number, token)? else {
        return recorded(transaction, number, token);
    };
    rows::run(transaction, &mut statements.settle, params![number, token, transaction.now().uptime])?;
    transaction.wrote(|| Landmark::NoLease(number, token.to_owned()));

    let job = match transition::needs_rules(&report) {
        true => Some(rows::place_and_rules(transaction, number)?),
        false => None,
    };
    let rules = job.as_ref().map(|job| job.rules).unwrap_or_default();
    match transition::after_report(report, ended.counters, &rules, ended.cancel.as_ref(), fastrand::f64()) {
        Next::Settle { kind, counters, result, error, evidence } => {
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
            rows::put_outcome(transaction, &mut statements.put_outcome, number, &outcome)?;
            Ok(Settlement::Settled(kind))
        }
        Next::PutBack { counters, due, error, answer } => {
            let mut put = transaction.prepare(sql::sqlite::PUT_READY)?;
            let report = answer.map(|answer| transition::record(answer, counters));
            let last = LastReport { token: Some(token), report: report.as_deref() };
            // Only reports that need the rules put a job back.
            let job = job.map_or_else(|| rows::place_and_rules(transaction, number), Ok)?;
            let place = Place { queue: &job.queue, lane: &job.lane, priority: job.priority };
            let ready = ReadyRow { place, due, counters, last, error: error.as_deref() };
            let at = rows::put_ready(transaction, &mut put, number, &ready)?;
            Ok(answer.map_or(Settlement::Released, |answer| answer.settlement(Some(at))))
        }
    }
}

/// No such claim now. Did this token end it earlier? Then the answer that was lost is given again.
fn recorded(transaction: &Transaction<'_>, number: i64, token: &str) -> Result<Settlement> {
    let mut statement = transaction.prepare(sql::sqlite::SETTLE_RECORDED)?;
    let found = rows::one_row(transaction, &mut statement, params![number, token], |row| {
        Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<Micros>>(1)?, row.get::<_, u32>(2)?))
    })?;
    let Some((Some(report), available_at, attempts)) = found else { return Ok(Settlement::Stale) };
    Ok(transition::recorded(&report, available_at, attempts))
}
