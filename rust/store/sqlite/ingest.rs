//! Ingest: admit new jobs, recognise replays, refuse other content under a known id.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::params;

use super::rows::{self, LastReport, Place, ReadyRow};
use super::transaction::{Landmark, Transaction};
use super::{lane, read};
use crate::error::{Error, Result};
use crate::job::{Admission, Counters, JobRecord, NewJob, State};
use crate::store::{Ingested, sql};

pub(super) fn ingest(transaction: &Transaction<'_>, jobs: Vec<NewJob>) -> Result<Vec<Ingested>> {
    let mut insert = transaction.prepare(sql::sqlite::INGEST)?;
    let mut put_ready = transaction.prepare(sql::sqlite::PUT_READY)?;
    let admitted_at = transaction.now().wall;
    let mut answers = Vec::with_capacity(jobs.len());
    let first = reserve_numbers(transaction, jobs.len())?;
    let mut room = Room::new(transaction)?;
    for (job, number) in jobs.into_iter().zip(first..) {
        let limit = room.left(transaction, &job)?;
        if let Some(Lane { limit, left: 0 }) = limit {
            // A replay is answered before the limit.
            answers.push(match rows::number_of_job(transaction, &job.job_id) {
                Ok(_) => existing(transaction, &job)?,
                Err(Error::JobNotFound { .. }) => {
                    Ingested { admission: Admission::Refused { limit: *limit }, record: None, job_id: job.job_id }
                }
                Err(error) => return Err(error),
            });
            continue;
        }
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
        if let Some(lane) = limit {
            lane.left -= 1;
        }
        transaction.wrote(|| Landmark::Job(number));
        let counters = Counters::default();
        let ready =
            ReadyRow { place: Place::of(&job), due: job.due, counters, last: LastReport::default(), error: None };
        let available_at = rows::put_ready(transaction, &mut put_ready, number, &ready)?;
        let job_id = job.job_id.clone();
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
        answers.push(Ingested { admission: Admission::Admitted, record: Some(record), job_id });
    }
    Ok(answers)
}

/// A lane that is bounded.
struct Lane {
    limit: u32,
    left: u32,
}

/// How much room bounded lanes have left, counted once per call and lane; `None` where no lane is bounded.
struct Room(Option<HashMap<(String, String), Option<Lane>>>);

impl Room {
    fn new(transaction: &Transaction<'_>) -> Result<Self> {
        Ok(Self(lane::any_limit(transaction)?.then(HashMap::new)))
    }

    /// `None` for a lane without a bound.
    fn left(&mut self, transaction: &Transaction<'_>, job: &NewJob) -> Result<Option<&mut Lane>> {
        let Some(lanes) = &mut self.0 else { return Ok(None) };
        let lane = match lanes.entry((job.queue.clone(), job.lane.clone())) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let lane = match lane::limit(transaction, &job.queue, &job.lane)? {
                    None => None,
                    Some(limit) => {
                        let size = lane::size(transaction, &job.queue, &job.lane, limit)?;
                        Some(Lane { limit, left: limit.saturating_sub(size) })
                    }
                };
                entry.insert(lane)
            }
        };
        Ok(lane.as_mut())
    }
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
    Ok(Ingested { admission, record: Some(record), job_id: job.job_id.clone() })
}
