//! Lists and counts: pages of jobs that stay put while jobs come and go, and numbers whose cost is bounded.

use std::collections::BTreeMap;

use rusqlite::{Row, params};

use super::claim::{next_priority, top_levels};
use super::read::read_one;
use super::rows;
use super::transaction::Transaction;
use crate::error::Result;
use crate::job::{ClaimKey, Micros, OutcomeKind};
use crate::management::{Cursor, JobsRequest, Page, Probed, QueueStats, StateFilter, Stats};
use crate::store::sql;

/// A place in a list, and the id of the job there.
type Entry = (Cursor, String);

/// One more was asked for than the page holds: whether it came says whether there is a next page.
fn page(transaction: &Transaction<'_>, mut entries: Vec<Entry>, limit: u32) -> Result<Page> {
    let limit = limit as usize;
    let more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| more).map(|(cursor, _)| *cursor);
    let mut jobs = Vec::with_capacity(entries.len());
    for (_, job_id) in entries {
        jobs.extend(read_one(transaction, &job_id)?);
    }
    Ok(Page { jobs, next })
}

pub(super) fn dead_letters(
    transaction: &Transaction<'_>,
    queue: Option<&str>,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page> {
    let after = after.unwrap_or(Cursor { at: Micros::MIN, number: 0 });
    let mut statement = transaction.prepare(sql::sqlite::DEAD_LETTERS)?;
    let mut entries: Vec<Entry> = Vec::new();
    for kind in [OutcomeKind::Failed, OutcomeKind::Interrupted] {
        let params = params![kind.as_str(), after.at, after.number, queue, i64::from(limit) + 1];
        entries.extend(rows::all_rows(transaction, &mut statement, params, |row| {
            Ok((Cursor { at: row.get(0)?, number: row.get(1)? }, row.get(2)?))
        })?);
    }
    entries.sort_unstable();
    page(transaction, entries, limit)
}

pub(super) fn jobs(transaction: &Transaction<'_>, request: &JobsRequest) -> Result<Page> {
    let after = request.after.unwrap_or_default().number;
    let more = i64::from(request.limit) + 1;
    let entry = |row: &Row<'_>| Ok((Cursor { at: 0, number: row.get(0)? }, row.get(1)?));
    let entries = if let Some(StateFilter::Settled(kind)) = request.state {
        let mut statement = transaction.prepare(sql::sqlite::JOBS_SETTLED)?;
        let params = params![after, request.queue, request.lane, more, kind.map(OutcomeKind::as_str)];
        rows::all_rows(transaction, &mut statement, params, entry)?
    } else {
        let mut statement = transaction.prepare(match request.state {
            Some(StateFilter::Queued) => sql::sqlite::JOBS_QUEUED,
            Some(StateFilter::Running) => sql::sqlite::JOBS_RUNNING,
            _ => sql::sqlite::JOBS,
        })?;
        rows::all_rows(transaction, &mut statement, params![after, request.queue, request.lane, more], entry)?
    };
    page(transaction, entries, request.limit)
}

pub(super) fn stats(transaction: &Transaction<'_>, bound: u32) -> Result<Stats> {
    let now = transaction.now().wall;
    let mut by_queue: BTreeMap<String, QueueStats> = BTreeMap::new();
    let mut queued = transaction.prepare(sql::sqlite::STATS_QUEUED)?;
    let mut due = transaction.prepare(sql::sqlite::STATS_DUE)?;
    for (top, queue) in top_levels(transaction)? {
        let mut stats = QueueStats {
            queued: rows::one_row(transaction, &mut queued, params![queue, bound], |row| row.get(0))?.unwrap_or(0),
            ..QueueStats::default()
        };
        let mut level = Some(top);
        while let Some(priority) = level {
            let left = bound.saturating_sub(stats.due);
            let found = rows::one_row(transaction, &mut due, params![queue, priority, now, left.max(1)], |row| {
                Ok((row.get::<_, u32>(0)?, row.get::<_, Option<Micros>>(1)?))
            })?;
            let (size, since) = found.unwrap_or_default();
            stats.due = stats.due.saturating_add(size).min(bound);
            stats.oldest_due = stats.oldest_due.into_iter().chain(since).min();
            level = next_priority(transaction, &queue, Some(priority))?;
        }
        by_queue.insert(queue, stats);
    }
    let mut running = transaction.prepare(sql::sqlite::STATS_RUNNING)?;
    let claimed = rows::all_rows(transaction, &mut running, [], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
    for (queue, size) in claimed {
        by_queue.entry(queue).or_default().running = size;
    }
    let mut outcomes = Vec::new();
    for kind in OutcomeKind::ALL {
        let size = if kind == OutcomeKind::Completed {
            let mut statement = transaction.prepare(sql::sqlite::STATS_COMPLETED)?;
            rows::one_row(transaction, &mut statement, [bound], |row| row.get(0))?
        } else {
            let mut statement = transaction.prepare(sql::sqlite::STATS_SETTLED)?;
            rows::one_row(transaction, &mut statement, params![kind.as_str(), bound], |row| row.get(0))?
        };
        outcomes.push((kind, size.unwrap_or(0)));
    }
    Ok(Stats { queues: by_queue.into_iter().collect(), outcomes, oldest_snapshot: None })
}

/// The oldest claim that a liveness probe stands for, after a place among them.
pub(super) fn probe(transaction: &Transaction<'_>, after: Option<Cursor>) -> Result<Option<Probed>> {
    let after = after.unwrap_or(Cursor { at: Micros::MIN, number: 0 });
    let mut statement = transaction.prepare(sql::sqlite::PROBE)?;
    let found = rows::one_row(transaction, &mut statement, params![after.at, after.number], |row| {
        let cursor = Cursor { at: row.get(0)?, number: row.get(1)? };
        Ok((cursor, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
    })?;
    let Some((cursor, lease_token, job_id)) = found else { return Ok(None) };
    let job = read_one(transaction, &job_id)?;
    Ok(job.map(|job| Probed { key: ClaimKey { number: cursor.number, lease_token: lease_token.into() }, cursor, job }))
}
