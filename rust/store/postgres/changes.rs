//! What a transaction makes of running jobs: collected while it decides, then written in one go.

use std::collections::HashMap;

use futures_util::future::try_join3;
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{factor, get, signed, time};
use crate::job::{Counters, Due, Micros, OutcomeKind};

/// A claim that ends.
#[derive(Default)]
pub(super) struct Changes {
    ended: Vec<i64>,
    ready: Ready,
    outcome: Outcome,
}

#[derive(Default)]
struct Ready {
    numbers: Vec<i64>,
    due_after: Vec<f64>,
    counters: CounterColumns,
    last: LastColumns,
    errors: Vec<Option<String>>,
}

#[derive(Default)]
struct Outcome {
    numbers: Vec<i64>,
    kinds: Vec<&'static str>,
    workers: Vec<Option<String>>,
    counters: CounterColumns,
    results: Vec<Option<String>>,
    errors: Vec<Option<String>>,
    evidence: Vec<Option<String>>,
    last: LastColumns,
}

#[derive(Default)]
struct CounterColumns {
    attempts: Vec<i32>,
    given_back: Vec<i32>,
    recoveries: Vec<i32>,
}

impl CounterColumns {
    fn push(&mut self, counters: Counters) {
        self.attempts.push(signed(counters.attempts));
        self.given_back.push(signed(counters.given_back));
        self.recoveries.push(signed(counters.recoveries));
    }
}

#[derive(Default)]
struct LastColumns {
    tokens: Vec<Option<String>>,
    reports: Vec<Option<String>>,
}

/// What a job carries of the claim that was ended last by its holder.
#[derive(Clone, Debug, Default)]
pub(super) struct LastReport {
    pub(super) token: Option<String>,
    pub(super) report: Option<String>,
}

impl LastColumns {
    fn push(&mut self, last: LastReport) {
        self.tokens.push(last.token);
        self.reports.push(last.report);
    }
}

/// An outcome, as it is written.
pub(super) struct Settled {
    pub(super) kind: OutcomeKind,
    pub(super) worker: Option<String>,
    pub(super) counters: Counters,
    pub(super) result: Option<String>,
    pub(super) error: Option<String>,
    pub(super) evidence: Option<String>,
    pub(super) last: LastReport,
}

impl Changes {
    /// A claim whose row is locked leaves the lease table.
    pub(super) fn end(&mut self, number: i64) {
        self.ended.push(number);
    }

    /// A job is queued.
    pub(super) fn put_ready(
        &mut self,
        number: i64,
        due: Due,
        counters: Counters,
        last: LastReport,
        error: Option<String>,
    ) {
        let after = match due {
            Due::After(delay) => delay,
            // Nothing that was queued before comes back for a time of its own.
            Due::Now | Due::At(_) => 0,
        };
        self.ready.numbers.push(number);
        self.ready.due_after.push(factor(after));
        self.ready.counters.push(counters);
        self.ready.last.push(last);
        self.ready.errors.push(error);
    }

    /// A job is settled.
    pub(super) fn put_outcome(&mut self, number: i64, settled: Settled) {
        self.outcome.numbers.push(number);
        self.outcome.kinds.push(settled.kind.as_str());
        self.outcome.workers.push(settled.worker);
        self.outcome.counters.push(settled.counters);
        self.outcome.results.push(settled.result);
        self.outcome.errors.push(settled.error);
        self.outcome.evidence.push(settled.evidence);
        self.outcome.last.push(settled.last);
    }

    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.ready.numbers.is_empty() && self.outcome.numbers.is_empty()
    }

    /// Write everything. Returns when each queued job is due.
    pub(super) async fn write(
        &self,
        transaction: &Transaction<'_>,
        shared: &Shared,
    ) -> Result<HashMap<i64, Micros>, Fault> {
        let take = async {
            if self.ended.is_empty() {
                return Ok(());
            }
            transaction.query(&shared.sql.take_lease, &[(&self.ended, Type::INT8_ARRAY)]).await.map(|_| ())
        };
        let ((), due, ()) =
            try_join3(take, self.write_ready(transaction, shared), self.write_outcome(transaction, shared)).await?;
        Ok(due)
    }

    async fn write_ready(&self, transaction: &Transaction<'_>, shared: &Shared) -> Result<HashMap<i64, Micros>, Fault> {
        let ready = &self.ready;
        if ready.numbers.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = transaction
            .query(
                &shared.sql.put_ready,
                &[
                    (&ready.numbers, Type::INT8_ARRAY),
                    (&ready.due_after, Type::FLOAT8_ARRAY),
                    (&ready.counters.attempts, Type::INT4_ARRAY),
                    (&ready.counters.given_back, Type::INT4_ARRAY),
                    (&ready.counters.recoveries, Type::INT4_ARRAY),
                    (&ready.last.tokens, Type::TEXT_ARRAY),
                    (&ready.last.reports, Type::TEXT_ARRAY),
                    (&ready.errors, Type::TEXT_ARRAY),
                ],
            )
            .await?;
        rows.iter().map(|row| Ok((get(row, "number")?, time(row, "available_at")?))).collect()
    }

    async fn write_outcome(&self, transaction: &Transaction<'_>, shared: &Shared) -> Result<(), Fault> {
        let outcome = &self.outcome;
        if outcome.numbers.is_empty() {
            return Ok(());
        }
        transaction
            .query(
                &shared.sql.put_outcome,
                &[
                    (&outcome.numbers, Type::INT8_ARRAY),
                    (&outcome.kinds, Type::TEXT_ARRAY),
                    (&outcome.workers, Type::TEXT_ARRAY),
                    (&outcome.counters.attempts, Type::INT4_ARRAY),
                    (&outcome.counters.given_back, Type::INT4_ARRAY),
                    (&outcome.counters.recoveries, Type::INT4_ARRAY),
                    (&outcome.results, Type::TEXT_ARRAY),
                    (&outcome.errors, Type::TEXT_ARRAY),
                    (&outcome.evidence, Type::TEXT_ARRAY),
                    (&outcome.last.tokens, Type::TEXT_ARRAY),
                    (&outcome.last.reports, Type::TEXT_ARRAY),
                ],
            )
            .await
            .map(|_| ())
    }
}
