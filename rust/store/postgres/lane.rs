//! Lanes: fail all that is queued in one, and bound how much may be.

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::types::Type;

use super::fault::Fault;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{count, get, storable};
use crate::management::FailedLane;

/// Where counting what is left of a lane stops: a lane of two million would be counted at every call otherwise.
const LEFT_BOUND: u32 = 10_000;

/// The lane that has no index of its own.
const DEFAULT: &str = "default";

/// A lane that is bounded.
pub(super) struct Room {
    pub(super) limit: u32,
    pub(super) left: u32,
}

/// How much room those of some lanes have that are bounded. Their bounds stay locked until the end of the transaction.
pub(super) async fn room(
    transaction: &Transaction<'_>,
    shared: &Shared,
    lanes: &BTreeSet<(&str, &str)>,
) -> Result<HashMap<(String, String), Room>, Fault> {
    if lanes.is_empty() {
        return Ok(HashMap::new());
    }
    let queues: Vec<&str> = lanes.iter().map(|(queue, _)| *queue).collect();
    let names: Vec<&str> = lanes.iter().map(|(_, lane)| *lane).collect();
    let params = [(&queues as _, Type::TEXT_ARRAY), (&names as _, Type::TEXT_ARRAY)];
    let mut room = HashMap::new();
    for row in transaction.query(&shared.sql.lane_limit, &params).await? {
        let (queue, lane): (String, String) = (get(&row, "queue")?, get(&row, "lane")?);
        let limit = count(&row, "most")?;
        let size = size(transaction, shared, &queue, &lane, limit).await?;
        room.insert((queue, lane), Room { limit, left: limit.saturating_sub(size) });
    }
    Ok(room)
}

/// How many jobs of a lane are queued, counted up to `bound`.
async fn size(
    transaction: &Transaction<'_>,
    shared: &Shared,
    queue: &str,
    lane: &str,
    bound: u32,
) -> Result<u32, Fault> {
    let bound = i64::from(bound);
    let rows = if lane == DEFAULT {
        let params = [(&queue as _, Type::TEXT), (&bound as _, Type::INT8)];
        transaction.query(&shared.sql.lane_size_default, &params).await?
    } else {
        let params = [(&queue as _, Type::TEXT), (&lane as _, Type::TEXT), (&bound as _, Type::INT8)];
        transaction.query(&shared.sql.lane_size, &params).await?
    };
    rows.first().map_or(Ok(0), |row| count(row, "size"))
}

pub(super) async fn fail_lane(
    transaction: &Transaction<'_>,
    shared: &Shared,
    queue: &str,
    lane: &str,
    reason: &str,
    limit: u32,
) -> Result<FailedLane, Fault> {
    if !storable(queue) || !storable(lane) {
        return Ok(FailedLane::default());
    }
    let limit = i64::from(limit);
    let rows = if lane == DEFAULT {
        let params = [(&queue as _, Type::TEXT), (&reason as _, Type::TEXT), (&limit as _, Type::INT8)];
        transaction.query(&shared.sql.fail_lane_default, &params).await?
    } else {
        let params = [
            (&queue as _, Type::TEXT),
            (&lane as _, Type::TEXT),
            (&reason as _, Type::TEXT),
            (&limit as _, Type::INT8),
        ];
        transaction.query(&shared.sql.fail_lane, &params).await?
    };
    let failed = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    Ok(FailedLane { failed, left: size(transaction, shared, queue, lane, LEFT_BOUND).await? })
}

pub(super) async fn set_lane_limit(
    transaction: &Transaction<'_>,
    shared: &Shared,
    queue: &str,
    lane: &str,
    most: Option<u32>,
) -> Result<(), Fault> {
    if let Some(most) = most.map(i64::from) {
        let params = [(&queue as _, Type::TEXT), (&lane as _, Type::TEXT), (&most as _, Type::INT8)];
        transaction.query(&shared.sql.set_lane_limit, &params).await?;
    } else {
        let params = [(&queue as _, Type::TEXT), (&lane as _, Type::TEXT)];
        transaction.query(&shared.sql.set_lane_limit_none, &params).await?;
    }
    Ok(())
}
