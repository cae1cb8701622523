//! Recover: put lost claims back, or settle them `interrupted` where no budget is left.

use rusqlite::params;

use super::rows::{self, LastReport, OutcomeRow, Place, ReadyRow};
use super::transaction::{Landmark, Transaction};
use crate::error::Result;
use crate::job::{Budgets, Counters, Recovered};
use crate::store::sql;
use crate::transition::{self, CancelRequest, Next};

/// A claim whose lease has expired, and what of its job the decision needs.
struct Lost {
    number: i64,
    job_id: String,
    worker: String,
    lease_token: String,
    counters: Counters,
    cancel: Option<CancelRequest>,
    last_token: Option<String>,
    last_report: Option<String>,
    queue: String,
    lane: String,
    priority: i32,
    budgets: Budgets,
}

/// The write lock is held from the look to the change, so that no claim can be renewed or settled in between.
pub(super) fn recover(transaction: &Transaction<'_>, limit: u32) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for lost in expired(transaction, limit)? {
        let mut take = transaction.prepare(sql::sqlite::RECOVER_TAKE)?;
        rows::run(transaction, &mut take, [lost.number])?;
        transaction.wrote(|| Landmark::NoLease(lost.number, lost.lease_token.clone()));
        let reason = format!(
            "the claim of worker {:?} was lost: its lease expired before it reported (attempt {})",
            lost.worker, lost.counters.attempts
        );
        let last = LastReport { token: lost.last_token.as_deref(), report: lost.last_report.as_deref() };
        match transition::after_loss(lost.counters, lost.budgets, lost.cancel.as_ref(), reason) {
            Next::PutBack { counters, due, error, .. } => {
                let mut put = transaction.prepare(sql::sqlite::PUT_READY)?;
                let place = Place { queue: &lost.queue, lane: &lost.lane, priority: lost.priority };
                let ready = ReadyRow { place, due, counters, last, error: error.as_deref() };
                rows::put_ready(transaction, &mut put, lost.number, &ready)?;
                recovered.recovered.push(lost.job_id);
            }
            Next::Settle { kind, counters, error, .. } => {
                let mut put = transaction.prepare(sql::sqlite::PUT_OUTCOME)?;
                let outcome = OutcomeRow {
                    kind,
                    worker: Some(&lost.worker),
                    counters,
                    result: None,
                    error: error.as_deref(),
                    evidence: None,
                    last,
                };
                rows::put_outcome(transaction, &mut put, lost.number, &outcome)?;
                recovered.interrupted.push(lost.job_id);
            }
        }
    }
    Ok(recovered)
}

fn expired(transaction: &Transaction<'_>, limit: u32) -> Result<Vec<Lost>> {
    let mut statement = transaction.prepare(sql::sqlite::RECOVER)?;
    let mut read = || -> rusqlite::Result<Vec<Lost>> {
        let mut lost = Vec::new();
        let mut rows = statement.query(params![transaction.now().uptime, limit])?;
        while let Some(row) = rows.next()? {
            lost.push(Lost {
                number: row.get(0)?,
                job_id: row.get(1)?,
                worker: row.get(2)?,
                counters: rows::counters(row, 3)?,
                cancel: rows::cancel_request(row, 6)?,
                last_token: row.get(8)?,
                last_report: row.get(9)?,
                queue: row.get(10)?,
                lane: row.get(11)?,
                priority: row.get(12)?,
                budgets: rows::budgets(row, 13)?,
                lease_token: row.get(15)?,
            });
        }
        Ok(lost)
    };
    read().map_err(|error| transaction.failed(&error))
}
