//! Lists and counts: pages of jobs that stay put while jobs come and go, and numbers whose cost is bounded.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::read::read_jobs;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{Time, count, get, optional_time, outcome_kind, storable, time, unsigned};
use crate::job::{JobRecord, Micros, OutcomeKind};
use crate::management::{Cursor, JobsRequest, Page, QueueStats, Snapshot, StateFilter, Stats};

/// A place in a list, and the id of the job there.
type Entry = (Cursor, String);

/// One more was asked for than the page holds: whether it came says whether there is a next page.
async fn page(
    transaction: &Transaction<'_>,
    shared: &Shared,
    mut entries: Vec<Entry>,
    limit: u32,
) -> Result<Page, Fault> {
    let limit = limit as usize;
    let more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| more).map(|(cursor, _)| *cursor);
    let ids: Vec<&str> = entries.iter().map(|(_, job_id)| job_id.as_str()).collect();
    let mut found: BTreeMap<i64, JobRecord> =
        read_jobs(transaction, shared, &ids).await?.into_iter().map(|job| (job.number, job)).collect();
    let jobs = entries.iter().filter_map(|(cursor, _)| found.remove(&cursor.number)).collect();
    Ok(Page { jobs, next })
}

pub(super) async fn dead_letters(
    transaction: &Transaction<'_>,
    shared: &Shared,
    queue: Option<&str>,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page, Fault> {
    if queue.is_some_and(|queue| !storable(queue)) {
        return Ok(Page::default());
    }
    let after = after.unwrap_or(Cursor { at: Micros::MIN, number: 0 });
    let (at, more) = (Time(after.at), i64::from(limit) + 1);
    let mut entries: Vec<Entry> = Vec::new();
    for kind in [OutcomeKind::Failed, OutcomeKind::Interrupted] {
        let params = [
            (&kind.as_str() as _, Type::TEXT),
            (&at as _, Type::TIMESTAMPTZ),
            (&after.number as _, Type::INT8),
            (&queue as _, Type::TEXT),
            (&more as _, Type::INT8),
        ];
        for row in transaction.query(&shared.sql.dead_letters, &params).await? {
            let cursor = Cursor { at: time(&row, "settled_at")?, number: get(&row, "number")? };
            entries.push((cursor, get(&row, "job_id")?));
        }
    }
    entries.sort_unstable();
    page(transaction, shared, entries, limit).await
}

pub(super) async fn jobs(transaction: &Transaction<'_>, shared: &Shared, request: &JobsRequest) -> Result<Page, Fault> {
    if [&request.queue, &request.lane].into_iter().flatten().any(|name| !storable(name)) {
        return Ok(Page::default());
    }
    let after = request.after.unwrap_or_default().number;
    let more = i64::from(request.limit) + 1;
    let mut params = vec![
        (&after as _, Type::INT8),
        (&request.queue as _, Type::TEXT),
        (&request.lane as _, Type::TEXT),
        (&more as _, Type::INT8),
    ];
    let kind = match request.state {
        Some(StateFilter::Settled(kind)) => kind.map(OutcomeKind::as_str),
        _ => None,
    };
    let statement = match request.state {
        None => &shared.sql.jobs,
        Some(StateFilter::Queued) => &shared.sql.jobs_queued,
        Some(StateFilter::Running) => &shared.sql.jobs_running,
        Some(StateFilter::Settled(_)) => {
            params.push((&kind as _, Type::TEXT));
            &shared.sql.jobs_settled
        }
    };
    let rows = transaction.query(statement, &params).await?;
    let entry = |row| Ok((Cursor { at: 0, number: get(row, "number")? }, get(row, "job_id")?));
    let entries = rows.iter().map(entry).collect::<Result<Vec<Entry>, Fault>>()?;
    page(transaction, shared, entries, request.limit).await
}

pub(super) async fn stats(transaction: &Transaction<'_>, shared: &Shared, bound: u32) -> Result<Stats, Fault> {
    let most = i64::from(bound);
    let mut by_queue: BTreeMap<String, QueueStats> = BTreeMap::new();
    for row in transaction.query(&shared.sql.stats_queues, &[(&most, Type::INT8)]).await? {
        let stats = QueueStats {
            queued: count(&row, "queued")?,
            due: count(&row, "due")?.min(bound),
            running: 0,
            oldest_due: optional_time(&row, "oldest_due")?,
        };
        by_queue.insert(get(&row, "queue")?, stats);
    }
    for row in transaction.query(&shared.sql.stats_running, &[]).await? {
        by_queue.entry(get(&row, "queue")?).or_default().running = count(&row, "size")?;
    }
    let kinds = OutcomeKind::ALL.map(OutcomeKind::as_str);
    let params = [(&kinds.as_slice() as _, Type::TEXT_ARRAY), (&most as _, Type::INT8)];
    let mut sizes = BTreeMap::new();
    for row in transaction.query(&shared.sql.stats_settled, &params).await? {
        sizes.insert(outcome_kind(&row)?.as_str(), count(&row, "size")?);
    }
    let outcomes =
        OutcomeKind::ALL.into_iter().map(|kind| (kind, sizes.get(kind.as_str()).copied().unwrap_or(0))).collect();
    let oldest_snapshot =
        transaction.query(&shared.sql.stats_snapshot, &[]).await?.first().map(snapshot).transpose()?;
    Ok(Stats { queues: by_queue.into_iter().collect(), outcomes, oldest_snapshot })
}

fn snapshot(row: &Row) -> Result<Snapshot, Fault> {
    Ok(Snapshot {
        kind: get(row, "kind")?,
        holder: get(row, "holder")?,
        application: get::<Option<String>>(row, "application")?.filter(|name| !name.is_empty()),
        age: get::<Option<i64>>(row, "age")?.map(|age| age.max(0)),
        transactions: unsigned(row, "transactions")?,
    })
}
