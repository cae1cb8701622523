//! Requeue and purge: what happens to jobs after they were settled.

use std::collections::HashSet;

use rusqlite::{Row, params};

use super::rows::{self, LastReport, Place, ReadyRow};
use super::transaction::{Landmark, Transaction};
use crate::error::Result;
use crate::job::{Counters, Due, Micros, OutcomeKind};
use crate::management::{PurgeRequest, Requeue};
use crate::store::sql;

pub(super) fn requeue(transaction: &Transaction<'_>, job_ids: &[String], force: bool) -> Result<Vec<Result<Requeue>>> {
    let mut answers = Vec::with_capacity(job_ids.len());
    for job_id in job_ids {
        answers.push(rows::own_answer(requeue_one(transaction, job_id, force))?);
    }
    Ok(answers)
}

fn requeue_one(transaction: &Transaction<'_>, job_id: &str, force: bool) -> Result<Requeue> {
    let number = rows::number_of_job(transaction, job_id)?;
    let Some((kind, counters)) = rows::find_outcome(transaction, number)? else { return Ok(Requeue::NotSettled) };
    match kind {
        OutcomeKind::Failed | OutcomeKind::Interrupted => {}
        OutcomeKind::OutcomeUnknown | OutcomeKind::Cancelled if force => {}
        _ => return Ok(Requeue::Refused(kind)),
    }
    let mut take = transaction.prepare(sql::sqlite::TAKE_OUTCOME)?;
    rows::run(transaction, &mut take, [number])?;
    let job = rows::place_and_rules(transaction, number)?;
    let place = Place { queue: &job.queue, lane: &job.lane, priority: job.priority };
    let ready = ReadyRow {
        place,
        due: Due::Now,
        // The number of an attempt identifies its claim and is never used again, so it goes on; none of them is charged.
        counters: Counters { attempts: counters.attempts, given_back: counters.attempts, recoveries: 0 },
        // No token of its former life says anything about the new one.
        last: LastReport::default(),
        error: None,
    };
    let mut put = transaction.prepare(sql::sqlite::PUT_READY)?;
    rows::put_ready(transaction, &mut put, number, &ready)?;
    transaction.wrote(|| Landmark::Ready(number));
    Ok(Requeue::Requeued)
}

/// Forget settled jobs. With the job goes the protection against its replay.
pub(super) fn purge(transaction: &Transaction<'_>, request: &PurgeRequest) -> Result<u32> {
    let until = transaction.now().wall.saturating_sub(request.older_than);
    let mut candidates: Vec<(Micros, i64)> = Vec::new();
    for kind in request.outcomes.iter().collect::<HashSet<_>>() {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        candidates.extend(if *kind == OutcomeKind::Completed {
            let mut statement = transaction.prepare(sql::sqlite::PURGE_COMPLETED)?;
            rows::all_rows(transaction, &mut statement, params![until, request.limit], read)?
        } else {
            let mut statement = transaction.prepare(sql::sqlite::PURGE)?;
            rows::all_rows(transaction, &mut statement, params![kind.as_str(), until, request.limit], read)?
        });
    }
    candidates.sort_unstable();
    candidates.truncate(request.limit as usize);
    let mut take_outcome = transaction.prepare(sql::sqlite::TAKE_OUTCOME)?;
    let mut take_job = transaction.prepare(sql::sqlite::TAKE_JOB)?;
    for (_, number) in &candidates {
        rows::run(transaction, &mut take_outcome, [number])?;
        rows::run(transaction, &mut take_job, [number])?;
        transaction.wrote(|| Landmark::NoJob(*number));
    }
    Ok(u32::try_from(candidates.len()).unwrap_or(u32::MAX))
}
