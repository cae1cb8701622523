//! Requeue and purge: what happens to jobs after they were settled.

use std::collections::HashSet;

use tokio_postgres::types::Type;

use super::changes::{Changes, LastReport};
use super::fault::Fault;
use super::names::Names;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{counters, factor, get, outcome_kind};
use crate::error::Result;
use crate::job::{Counters, Due, OutcomeKind};
use crate::management::{PurgeRequest, Requeue};

pub(super) async fn requeue(
    transaction: &Transaction<'_>,
    shared: &Shared,
    job_ids: &[String],
    force: bool,
) -> Result<Vec<Result<Requeue>>, Fault> {
    let ids: Vec<&str> = job_ids.iter().map(String::as_str).collect();
    let names = Names::find(transaction, shared, &ids).await?;
    let mut numbers: Vec<i64> = ids.iter().filter_map(|id| names.job(id).ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut refused = Vec::new();
    let mut requeued = Vec::new();
    let mut changes = Changes::default();
    for row in transaction.query(&shared.sql.find_outcome, &[(&numbers, Type::INT8_ARRAY)]).await? {
        let (number, kind): (i64, OutcomeKind) = (get(&row, "number")?, outcome_kind(&row)?);
        let allowed = match kind {
            OutcomeKind::Failed | OutcomeKind::Interrupted => true,
            OutcomeKind::OutcomeUnknown | OutcomeKind::Cancelled => force,
            OutcomeKind::Completed => false,
        };
        if !allowed {
            refused.push((number, kind));
            continue;
        }
        // The number of an attempt identifies its claim and is never used again, so it goes on; none of them is charged.
        let attempts = counters(&row)?.attempts;
        let counters = Counters { attempts, given_back: attempts, recoveries: 0 };
        // No token of its former life says anything about the new one.
        changes.put_ready(number, Due::Now, counters, LastReport::default(), None);
        requeued.push(number);
    }
    if !requeued.is_empty() {
        transaction.query(&shared.sql.take_outcome, &[(&requeued, Type::INT8_ARRAY)]).await?;
        changes.write(transaction, shared).await?;
    }
    let mut fresh: HashSet<i64> = requeued.into_iter().collect();
    let answer = |id: &str| {
        let number = names.job(id)?;
        // Named twice, a job is requeued once.
        Ok(if fresh.remove(&number) {
            Requeue::Requeued
        } else if let Some((_, kind)) = refused.iter().find(|(refused, _)| *refused == number) {
            Requeue::Refused(*kind)
        } else {
            Requeue::NotSettled
        })
    };
    Ok(ids.into_iter().map(answer).collect())
}

/// Forget settled jobs. With the job goes the protection against its replay.
pub(super) async fn purge(
    transaction: &Transaction<'_>,
    shared: &Shared,
    request: &PurgeRequest,
) -> Result<u32, Fault> {
    let older_than = factor(request.older_than);
    let kinds: HashSet<OutcomeKind> = request.outcomes.iter().copied().collect();
    let completed = kinds.contains(&OutcomeKind::Completed);
    let others: Vec<&str> =
        kinds.into_iter().filter(|kind| *kind != OutcomeKind::Completed).map(OutcomeKind::as_str).collect();
    let limit = i64::from(request.limit);
    let params = [
        (&older_than as _, Type::FLOAT8),
        (&others as _, Type::TEXT_ARRAY),
        (&completed as _, Type::BOOL),
        (&limit as _, Type::INT8),
    ];
    let rows = transaction.query(&shared.sql.purge, &params).await?;
    Ok(u32::try_from(rows.len()).unwrap_or(u32::MAX))
}
