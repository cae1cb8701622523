//! Recover: put lost claims back, or settle them `interrupted` where no budget is left.

use rusqlite::{Row, params};

use super::rows::{self, LastReport, OutcomeRow, Place, ReadyRow};
use super::transaction::{Landmark, Transaction};
use crate::error::Result;
use crate::job::{Budgets, ClaimKey, Counters, Micros, Recovered};
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
    let mut statement = transaction.prepare(sql::sqlite::RECOVER)?;
    let lost = rows::all_rows(transaction, &mut statement, params![transaction.now().uptime, limit], read)?;
    put_back(transaction, lost, "its lease expired before it reported")
}

/// One claim that is known to be lost. Settled or recovered meanwhile, it is left alone.
pub(super) fn recover_claim(transaction: &Transaction<'_>, claim: &ClaimKey, how: &str) -> Result<Recovered> {
    let mut statement = transaction.prepare(sql::sqlite::RECOVER_CLAIM)?;
    let lost = rows::all_rows(transaction, &mut statement, params![claim.number, claim.lease_token], read)?;
    put_back(transaction, lost, how)
}

/// Give claims that a liveness probe stood for a lease.
pub(super) fn adopt(transaction: &Transaction<'_>, lease: Micros) -> Result<()> {
    let mut statement = transaction.prepare(sql::sqlite::ADOPT)?;
    rows::run(transaction, &mut statement, [transaction.now().uptime.saturating_add(lease)]).map(|_| ())
}

fn put_back(transaction: &Transaction<'_>, claims: Vec<Lost>, how: &str) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for lost in claims {
        let mut take = transaction.prepare(sql::sqlite::TAKE_LEASE)?;
        rows::run(transaction, &mut take, [lost.number])?;
        transaction.wrote(|| Landmark::NoLease(lost.number, lost.lease_token.clone()));
        let reason = transition::loss_reason(&lost.worker, lost.counters.attempts, how);
        let ended = LastReport { token: lost.last_token.as_deref(), report: lost.last_report.as_deref() };
        match transition::after_loss(lost.counters, lost.budgets, lost.cancel.as_ref(), reason) {
            Next::PutBack { counters, due, error, .. } => {
                let mut put = transaction.prepare(sql::sqlite::PUT_READY)?;
                let place = Place { queue: &lost.queue, lane: &lost.lane, priority: lost.priority };
                let ready = ReadyRow { place, due, counters, last: ended, error: error.as_deref() };
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
                    last: ended,
                };
                rows::put_outcome(transaction, &mut put, lost.number, &outcome)?;
                recovered.interrupted.push(lost.job_id);
            }
        }
    }
    Ok(recovered)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Lost> {
    Ok(Lost {
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
    })
}
