//! Lanes: fail all that is queued in one, and bound how much may be.

use rusqlite::params;

use super::cancel::settle_queued;
use super::rows::{self, FoundReady};
use super::transaction::Transaction;
use crate::error::Result;
use crate::job::OutcomeKind;
use crate::management::FailedLane;
use crate::store::sql;

/// Where counting what is left of a lane stops: a lane of two million would be counted at every call otherwise, 84 ms each.
const LEFT_BOUND: u32 = 10_000;

/// The lane that has no index of its own.
const DEFAULT: &str = "default";

pub(super) fn fail_lane(
    transaction: &Transaction<'_>,
    queue: &str,
    lane: &str,
    reason: &str,
    limit: u32,
) -> Result<FailedLane> {
    let queued = queued(transaction, queue, lane, limit)?;
    for ready in &queued {
        settle_queued(transaction, ready, OutcomeKind::Failed, reason)?;
    }
    Ok(FailedLane {
        failed: u32::try_from(queued.len()).unwrap_or(u32::MAX),
        left: size(transaction, queue, lane, LEFT_BOUND)?,
    })
}

fn queued(transaction: &Transaction<'_>, queue: &str, lane: &str, limit: u32) -> Result<Vec<FoundReady>> {
    if lane == DEFAULT {
        let mut statement = transaction.prepare(sql::sqlite::FAIL_LANE_DEFAULT)?;
        rows::all_rows(transaction, &mut statement, params![queue, limit], FoundReady::read)
    } else {
        let mut statement = transaction.prepare(sql::sqlite::FAIL_LANE)?;
        rows::all_rows(transaction, &mut statement, params![queue, lane, limit], FoundReady::read)
    }
}

/// How many jobs of a lane are queued, counted up to `bound`.
pub(super) fn size(transaction: &Transaction<'_>, queue: &str, lane: &str, bound: u32) -> Result<u32> {
    let size = if lane == DEFAULT {
        let mut statement = transaction.prepare(sql::sqlite::LANE_SIZE_DEFAULT)?;
        rows::one_row(transaction, &mut statement, params![queue, bound], |row| row.get(0))?
    } else {
        let mut statement = transaction.prepare(sql::sqlite::LANE_SIZE)?;
        rows::one_row(transaction, &mut statement, params![queue, lane, bound], |row| row.get(0))?
    };
    Ok(size.unwrap_or(0))
}

/// Whether any lane is bounded.
pub(super) fn any_limit(transaction: &Transaction<'_>) -> Result<bool> {
    let mut statement = transaction.prepare(sql::sqlite::LANE_LIMIT_ANY)?;
    Ok(rows::one_row(transaction, &mut statement, [], |row| row.get(0))?.unwrap_or(false))
}

/// How many jobs of a lane may be queued; `None` for any number.
pub(super) fn limit(transaction: &Transaction<'_>, queue: &str, lane: &str) -> Result<Option<u32>> {
    let mut statement = transaction.prepare(sql::sqlite::LANE_LIMIT)?;
    rows::one_row(transaction, &mut statement, [queue, lane], |row| row.get(0))
}

pub(super) fn set_lane_limit(transaction: &Transaction<'_>, queue: &str, lane: &str, most: Option<u32>) -> Result<()> {
    if let Some(most) = most {
        let mut set = transaction.prepare(sql::sqlite::SET_LANE_LIMIT)?;
        rows::run(transaction, &mut set, params![queue, lane, most])?;
    } else {
        let mut clear = transaction.prepare(sql::sqlite::SET_LANE_LIMIT_NONE)?;
        rows::run(transaction, &mut clear, [queue, lane])?;
    }
    Ok(())
}
