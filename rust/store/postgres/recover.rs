//! Recover: put lost claims back, or settle them `interrupted` where no budget is left.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::changes::{Changes, LastReport, Settled};
use super::fault::Fault;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{budgets, cancel_request, counters, get};
use crate::job::{ClaimKey, Recovered};
use crate::transition::{self, Next};

/// The rows stay locked from the look to the change, so that no claim can be renewed or settled in between.
pub(super) async fn recover(transaction: &Transaction<'_>, shared: &Shared, limit: u32) -> Result<Recovered, Fault> {
    let lost = transaction.query(&shared.sql.recover, &[(&i64::from(limit), Type::INT8)]).await?;
    put_all_back(transaction, shared, &lost, "its lease expired before it reported").await
}

/// One claim that is known to be lost. Settled or recovered meanwhile, it is left alone.
pub(super) async fn recover_claim(
    transaction: &Transaction<'_>,
    shared: &Shared,
    claim: &ClaimKey,
    how: &str,
) -> Result<Recovered, Fault> {
    let params = [(&claim.number as _, Type::INT8), (&&*claim.lease_token as _, Type::TEXT)];
    let lost = transaction.query(&shared.sql.recover_claim, &params).await?;
    put_all_back(transaction, shared, &lost, how).await
}

async fn put_all_back(
    transaction: &Transaction<'_>,
    shared: &Shared,
    lost: &[Row],
    how: &str,
) -> Result<Recovered, Fault> {
    let (mut changes, mut recovered) = (Changes::default(), Recovered::default());
    for row in lost {
        put_back(row, how, &mut changes, &mut recovered)?;
    }
    if !changes.is_empty() {
        changes.write(transaction, shared).await?;
    }
    Ok(recovered)
}

fn put_back(row: &Row, how: &str, changes: &mut Changes, recovered: &mut Recovered) -> Result<(), Fault> {
    let number: i64 = get(row, "number")?;
    let job_id: String = get(row, "job_id")?;
    let worker: String = get(row, "worker")?;
    let counters = counters(row)?;
    let last = LastReport { token: get(row, "last_token")?, report: get(row, "last_report")? };
    let reason = transition::loss_reason(&worker, counters.attempts, how);
    changes.end(number);
    match transition::after_loss(counters, budgets(row)?, cancel_request(row)?.as_ref(), reason) {
        Next::PutBack { counters, due, error, .. } => {
            changes.put_ready(number, due, counters, last, error);
            recovered.recovered.push(job_id);
        }
        Next::Settle { kind, counters, error, .. } => {
            let worker = Some(worker);
            changes.put_outcome(number, Settled { kind, worker, counters, result: None, error, evidence: None, last });
            recovered.interrupted.push(job_id);
        }
    }
    Ok(())
}
