//! Claim: recover what was lost, then give the next due jobs to one worker.
//!
//! The order is priority, then `available_at`, then admission, over all queues that were asked for. The index holds one
//! range per queue and priority; the claim reads from the highest priority down and stops when it has enough, so that
//! neither waiting jobs of other queues nor jobs of a later time are read.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::params;

use super::recover::{adopt, recover};
use super::rows::{self, LastReport};
use super::runtime_lock;
use super::transaction::{Landmark, Transaction};
use crate::error::Result;
use crate::job::{Claim, ClaimKey, ClaimRequest, Claimed, Counters, Micros};
use crate::options::RECOVERY_BATCH;
use crate::store::{Runtime, sql};

pub(super) fn claim(transaction: &Transaction<'_>, request: &ClaimRequest) -> Result<Claimed> {
    if let Some(lease) = request.lease {
        adopt_orphans(transaction, lease)?;
    }
    let recovery = recover(transaction, RECOVERY_BATCH)?;
    let mut next_due = None;
    let candidates = candidates(transaction, request, &mut next_due)?;
    let next_in = match request.look_ahead && candidates.len() < request.limit as usize {
        true => next_in(transaction, next_due)?,
        false => None,
    };
    let claims = take(transaction, request, candidates)?;
    Ok(Claimed { claims, recovery, next_in })
}

/// In how long there is something to do: a job is due at `next_due` (wall time), or a lease ends.
fn next_in(transaction: &Transaction<'_>, next_due: Option<Micros>) -> Result<Option<Micros>> {
    let now = transaction.now();
    let mut lease = transaction.prepare(sql::sqlite::NEXT_WAKE_LEASE)?;
    let lease_until = rows::one_row(transaction, &mut lease, [], |row| row.get::<_, Option<Micros>>(0))?.flatten();
    let due = next_due.map(|due| due - now.wall);
    Ok(due.into_iter().chain(lease_until.map(|until| until - now.uptime)).min().map(|left| left.max(0)))
}

/// Claims that a liveness probe stood for get a lease once their runtime is gone: without one, nobody would ever find out
/// about them.
fn adopt_orphans(transaction: &Transaction<'_>, lease: Micros) -> Result<()> {
    let mut probed = transaction.prepare(sql::sqlite::CLAIM_PROBED)?;
    let any = rows::one_row(transaction, &mut probed, [], |row| row.get::<_, bool>(0))?.unwrap_or(false);
    if any && runtime_lock::lock(transaction.target(), Runtime::Lease).is_ok() {
        adopt(transaction, lease)?;
    }
    Ok(())
}

/// A row of the ready table.
struct Candidate {
    number: i64,
    available_at: Micros,
    counters: Counters,
    last_token: Option<String>,
    last_report: Option<String>,
    last_error: Option<String>,
}

/// The next jobs, in order. Where they are fewer than asked for, `next_due` becomes the time of the first one after them.
fn candidates(
    transaction: &Transaction<'_>,
    request: &ClaimRequest,
    next_due: &mut Option<Micros>,
) -> Result<Vec<Candidate>> {
    let limit = request.limit as usize;
    // Which queues to read at which priority, the highest first.
    let mut levels: BTreeMap<Reverse<i64>, Vec<String>> = BTreeMap::new();
    match &request.queues {
        Some(queues) => {
            // Named twice, a queue still counts once.
            for queue in queues.iter().collect::<BTreeSet<_>>() {
                if let Some(priority) = next_priority(transaction, queue, None)? {
                    levels.entry(Reverse(priority)).or_default().push(queue.clone());
                }
            }
        }
        None => {
            for (priority, queue) in top_levels(transaction)? {
                levels.entry(Reverse(priority)).or_default().push(queue);
            }
        }
    }

    let mut chosen: Vec<Candidate> = Vec::new();
    while let Some((Reverse(priority), queues)) = levels.pop_first() {
        let mut found = Vec::new();
        for queue in &queues {
            due(transaction, queue, priority, limit - chosen.len(), &mut found)?;
        }
        // Each queue came in order; several of them are merged.
        found.sort_unstable_by_key(|candidate| (candidate.available_at, candidate.number));
        found.truncate(limit - chosen.len());
        chosen.append(&mut found);
        if chosen.len() == limit {
            break;
        }
        for queue in queues {
            if request.look_ahead {
                let mut next = transaction.prepare(sql::sqlite::CLAIM_NEXT)?;
                let next: Option<Micros> =
                    rows::one_row(transaction, &mut next, params![queue, priority, transaction.now().wall], |row| {
                        row.get(0)
                    })?;
                *next_due = next_due.take().into_iter().chain(next).min();
            }
            if let Some(lower) = next_priority(transaction, &queue, Some(priority))? {
                levels.entry(Reverse(lower)).or_default().push(queue);
            }
        }
    }
    Ok(chosen)
}

/// The highest priority of a queue that is below `below`.
pub(super) fn next_priority(transaction: &Transaction<'_>, queue: &str, below: Option<i64>) -> Result<Option<i64>> {
    let mut statement = transaction.prepare(sql::sqlite::CLAIM_PRIORITY)?;
    rows::one_row(transaction, &mut statement, params![queue, below.unwrap_or(i64::MAX)], |row| row.get(0))
}

/// Every queue that has a queued job, with its highest priority.
pub(super) fn top_levels(transaction: &Transaction<'_>) -> Result<Vec<(i64, String)>> {
    let mut levels = Vec::new();
    let mut after = String::new(); // no queue has an empty name, so all of them come after it
    let mut statement = transaction.prepare(sql::sqlite::CLAIM_QUEUE)?;
    while let Some(queue) = rows::one_row(transaction, &mut statement, [&after], |row| row.get::<_, String>(0))? {
        if let Some(priority) = next_priority(transaction, &queue, None)? {
            levels.push((priority, queue.clone()));
        }
        after = queue;
    }
    Ok(levels)
}

fn due(
    transaction: &Transaction<'_>,
    queue: &str,
    priority: i64,
    limit: usize,
    found: &mut Vec<Candidate>,
) -> Result<()> {
    let now = transaction.now().wall;
    let mut statement = transaction.prepare(sql::sqlite::CLAIM)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    found.extend(rows::all_rows(transaction, &mut statement, params![queue, priority, now, limit], |row| {
        Ok(Candidate {
            number: row.get(0)?,
            available_at: row.get(1)?,
            counters: rows::counters(row, 2)?,
            last_token: row.get(5)?,
            last_report: row.get(6)?,
            last_error: row.get(7)?,
        })
    })?);
    Ok(())
}

/// Move the candidates from ready to lease, and read what their executors need.
fn take(transaction: &Transaction<'_>, request: &ClaimRequest, candidates: Vec<Candidate>) -> Result<Vec<Claim>> {
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let now = transaction.now();
    let lease_until = request.lease.map(|lease| now.uptime.saturating_add(lease));
    let mut take = transaction.prepare(sql::sqlite::TAKE_READY)?;
    let mut lease = transaction.prepare(sql::sqlite::CLAIM_LEASE)?;
    let mut job = transaction.prepare(sql::sqlite::CLAIM_JOB)?;
    let mut claims = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let number = candidate.number;
        let counters = Counters { attempts: candidate.counters.attempts.saturating_add(1), ..candidate.counters };
        let last = LastReport { token: candidate.last_token.as_deref(), report: candidate.last_report.as_deref() };
        rows::run(transaction, &mut take, [number])?;
        rows::run(
            transaction,
            &mut lease,
            params![
                number,
                request.lease_token,
                lease_until,
                request.worker,
                now.wall,
                counters.attempts,
                counters.given_back,
                counters.recoveries,
                last.token,
                last.report,
                candidate.last_error,
            ],
        )?;
        transaction.wrote(|| Landmark::Lease(number, request.lease_token.to_string(), lease_until));
        let last_error = candidate.last_error;
        let claim = rows::one_row(transaction, &mut job, [number], |row| {
            Ok(Claim {
                key: ClaimKey { number, lease_token: Arc::clone(&request.lease_token) },
                job_id: row.get(0)?,
                queue: row.get(1)?,
                lane: row.get(2)?,
                priority: row.get(3)?,
                payload: row.get(4)?,
                budgets: rows::budgets(row, 5)?,
                timeout: row.get(7)?,
                admitted_at: row.get(8)?,
                claimed_at: now.wall,
                counters,
                last_error,
            })
        })?;
        claims.extend(claim);
    }
    Ok(claims)
}
