//! Cancel: a queued job never runs; a running one is asked to stop.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::Type;

use super::fault::Fault;
use super::names::Names;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{get, outcome_kind};
use crate::error::Result;
use crate::job::{ClaimKey, OutcomeKind};
use crate::management::Cancellation;

/// How often a job is looked for that moves from table to table meanwhile.
const MOST_LOOKS: u32 = 10;

pub(super) async fn cancel(
    transaction: &Transaction<'_>,
    shared: &Shared,
    jobs: &[(String, String)],
) -> Result<Vec<Result<Cancellation>>, Fault> {
    let ids: Vec<&str> = jobs.iter().map(|(job_id, _)| job_id.as_str()).collect();
    let names = Names::find(transaction, shared, &ids).await?;
    let mut answers: Vec<Option<Result<Cancellation>>> =
        jobs.iter().map(|(job_id, _)| names.job(job_id).err().map(Err)).collect();
    // Rows are locked in the order of their numbers; a job that is named twice takes two rounds.
    let mut looks = 0;
    while answers.iter().any(Option::is_none) {
        let mut seen = HashSet::new();
        let mut asked: Vec<(i64, usize)> = Vec::new();
        for (place, (job_id, _)) in jobs.iter().enumerate() {
            if let (None, Ok(number)) = (&answers[place], names.job(job_id))
                && seen.insert(number)
            {
                asked.push((number, place));
            }
        }
        asked.sort_unstable();
        let found = round(transaction, shared, jobs, &asked).await?;
        for (number, place) in asked {
            answers[place] = found.get(&number).cloned().map(Ok);
            if answers[place].is_none() && looks >= MOST_LOOKS {
                return Err(Fault::Busy);
            }
        }
        looks += 1;
    }
    Ok(answers.into_iter().flatten().collect())
}

/// One look at each table, in the order in which jobs move. What moved back meanwhile is not found.
async fn round(
    transaction: &Transaction<'_>,
    shared: &Shared,
    jobs: &[(String, String)],
    asked: &[(i64, usize)],
) -> Result<HashMap<i64, Cancellation>, Fault> {
    let mut found = HashMap::new();
    let numbers: Vec<i64> = asked.iter().map(|(number, _)| *number).collect();
    let reasons: Vec<&str> = asked.iter().map(|(_, place)| jobs[*place].1.as_str()).collect();
    let params = [(&numbers as _, Type::INT8_ARRAY), (&reasons as _, Type::TEXT_ARRAY)];
    for row in transaction.query(&shared.sql.cancel_ready, &params).await? {
        found.insert(get(&row, "number")?, Cancellation::Cancelled);
    }
    if found.len() == asked.len() {
        return Ok(found);
    }
    transaction.query(&shared.sql.cancel, &params).await?;
    for row in transaction.query(&shared.sql.cancel_claim, &[(&numbers, Type::INT8_ARRAY)]).await? {
        let (number, token): (i64, String) = (get(&row, "number")?, get(&row, "lease_token")?);
        let reason: Option<String> = get(&row, "cancel_reason")?;
        let key = ClaimKey { number, lease_token: token.into() };
        found.insert(number, Cancellation::Requested { key, reason: reason.unwrap_or_default() });
    }
    let left: Vec<i64> = numbers.into_iter().filter(|number| !found.contains_key(number)).collect();
    if !left.is_empty() {
        for row in transaction.query(&shared.sql.find_outcome, &[(&left, Type::INT8_ARRAY)]).await? {
            let kind: OutcomeKind = outcome_kind(&row)?;
            found.insert(get(&row, "number")?, Cancellation::Settled(kind));
        }
    }
    Ok(found)
}
