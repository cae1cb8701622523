//! Claims and jobs that are named by their id: the order numbers behind them.

use std::collections::HashMap;

use tokio::time::Instant;
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::link::Link;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{get, storable};
use crate::error::{Error, Result};
use crate::job::ClaimName;

/// The order numbers of some jobs.
#[derive(Default)]
pub(super) struct Names(HashMap<String, i64>);

impl Names {
    /// Look up those that are named by id. Without any, the server is not asked.
    pub(super) async fn resolve<'a>(
        shared: &Shared,
        link: &mut Link,
        deadline: Instant,
        claims: impl IntoIterator<Item = &'a ClaimName>,
    ) -> Result<Self, Fault> {
        let ids: Vec<&str> = claims
            .into_iter()
            .filter_map(|claim| match claim {
                ClaimName::Number(_) => None,
                ClaimName::JobId { job_id, .. } => Some(job_id.as_str()),
            })
            .collect();
        if ids.is_empty() {
            return Ok(Self::default());
        }
        link.transact(shared.batch(deadline), async |transaction| Self::find(transaction, shared, &ids).await).await
    }

    /// Look jobs up.
    pub(super) async fn find(transaction: &Transaction<'_>, shared: &Shared, ids: &[&str]) -> Result<Self, Fault> {
        let ids: Vec<&str> = ids.iter().copied().filter(|id| storable(id)).collect();
        let rows = transaction.query(&shared.sql.find_jobs, &[(&ids, Type::TEXT_ARRAY)]).await?;
        rows.iter().map(|row| Ok((get(row, "job_id")?, get(row, "number")?))).collect::<Result<_, _>>().map(Self)
    }

    /// The order number of a job.
    pub(super) fn job(&self, job_id: &str) -> Result<i64> {
        self.0.get(job_id).copied().ok_or_else(|| Error::JobNotFound { job_id: job_id.to_owned() })
    }

    /// The order number of the job that a claim is on.
    pub(super) fn number(&self, claim: &ClaimName) -> Result<i64> {
        match claim {
            ClaimName::Number(key) => Ok(key.number),
            ClaimName::JobId { job_id, .. } => self.job(job_id),
        }
    }
}
