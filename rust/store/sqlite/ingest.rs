//! Ingest: admit new jobs, recognise replays, refuse other content under a known id.

use rusqlite::params;

use super::read;
use super::rows::{self, LastReport, Place, ReadyRow};
use super::transaction::{Landmark, Transaction};
use crate::error::{Error, Result};
use crate::job::{Admission, Counters, JobRecord, NewJob, State};
use crate::store::{Ingested, sql};

pub(super) fn ingest(transaction: &Transaction<'_>, jobs: Vec<NewJob>) -> Result<Vec<Ingested>> {
    let mut insert = transaction.prepare(sql::sqlite::INGEST)?;
    let mut put_ready = transaction.prepare(sql::sqlite::PUT_READY)?;
    let admitted_at = transaction.now().wall;
    let mut answers = Vec::with_capacity(jobs.len());
    let first = reserve_numbers(transaction, jobs.len())?;
    for (job, number) in jobs.into_iter().zip(first..) {
        let params = params![
            number,
            job.job_id,
            job.queue,
            job.lane,
            job.priority,
            job.payload,
            job.budgets.max_attempts,
            job.budgets.max_recoveries,
            job.backoff.map(|backoff| backoff.base),
            job.backoff.map(|backoff| backoff.cap),
            job.backoff.map(|backoff| backoff.jitter),
            job.timeout,
            admitted_at,
        ];
        if rows::run(transaction, &mut insert, params)? == 0 {
            answers.push(existing(transaction, &job)?);
            continue;
        }
        transaction.wrote(|| Landmark::Job(number));
        let counters = Counters::default();
        let ready =
            ReadyRow { place: Place::of(&job), due: job.due, counters, last: LastReport::default(), error: None };
        let available_at = rows::put_ready(transaction, &mut put_ready, number, &ready)?;
        let record = JobRecord {
            number,
            job_id: job.job_id,
            queue: job.queue,
            lane: job.lane,
            priority: job.priority,
            payload: job.payload,
            budgets: job.budgets,
            admitted_at,
            counters,
            state: State::Queued { available_at },
            result: None,
            error: None,
            evidence: None,
        };
        answers.push(Ingested { admission: Admission::Admitted, record });
    }
    Ok(answers)
}

/// The first of as many order numbers as there are jobs. Those that are not needed in the end are skipped for ever.
fn reserve_numbers(transaction: &Transaction<'_>, count: usize) -> Result<i64> {
    let mut read = transaction.prepare(sql::sqlite::INGEST_COUNTER)?;
    let last: i64 = rows::one_row(transaction, &mut read, [], |row| row.get(0))?.unwrap_or_default();
    let mut set = transaction.prepare(sql::sqlite::INGEST_COUNTER_SET)?;
    rows::run(transaction, &mut set, [last + i64::try_from(count).unwrap_or_default()])?;
    Ok(last + 1)
}

/// The id is taken: by the same content, or by other content?
fn existing(transaction: &Transaction<'_>, job: &NewJob) -> Result<Ingested> {
    const FIELDS: [&str; 6] = ["queue", "lane", "priority", "payload", "max_attempts", "max_recoveries"];
    let mut compare = transaction.prepare(sql::sqlite::INGEST_EXISTING)?;
    let params = params![
        job.job_id,
        job.queue,
        job.lane,
        job.priority,
        job.payload,
        job.budgets.max_attempts,
        job.budgets.max_recoveries,
    ];
    let different: Vec<&str> = rows::one_row(transaction, &mut compare, params, |row| {
        let mut different = Vec::new();
        for (column, field) in FIELDS.iter().enumerate() {
            if !row.get::<_, bool>(column)? {
                different.push(*field);
            }
        }
        Ok(different)
    })?
    .unwrap_or_default();
    let record =
        read::read_one(transaction, &job.job_id)?.ok_or_else(|| Error::JobNotFound { job_id: job.job_id.clone() })?;
    let admission = match different.is_empty() {
        true => Admission::Duplicate,
        false => Admission::Conflict { difference: different.join(", ") },
    };
    Ok(Ingested { admission, record })
}
