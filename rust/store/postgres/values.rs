//! Values on their way to the server and back: times as microseconds, JSON as its text, counters as whole numbers.

use std::error::Error as StdError;

use tokio_postgres::Row;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::fault::Fault;
use crate::job::{Budgets, Counters, Micros, OutcomeKind};
use crate::transition::CancelRequest;

/// PostgreSQL counts from the year 2000.
const EPOCH: Micros = 946_684_800_000_000;

/// A `timestamptz`. The smallest number stands for minus infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) Micros);

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.extend_from_slice(&self.0.saturating_sub(EPOCH).to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(i64::from_be_bytes(raw.try_into()?).saturating_add(EPOCH)))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TIMESTAMPTZ
    }
}

/// The text of a `json` value.
pub(super) struct Json(pub(super) String);

impl<'a> FromSql<'a> for Json {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::JSON
    }
}

/// A column of a row.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: impl RowIndex + std::fmt::Display) -> Result<T, Fault> {
    row.try_get(column).map_err(|error| Fault::from_driver(&error))
}

/// A time.
pub(super) fn time(row: &Row, column: &str) -> Result<Micros, Fault> {
    get::<Time>(row, column).map(|time| time.0)
}

/// A time that may be absent.
pub(super) fn optional_time(row: &Row, column: &str) -> Result<Option<Micros>, Fault> {
    get::<Option<Time>>(row, column).map(|time| time.map(|time| time.0))
}

/// JSON that may be absent.
pub(super) fn optional_json(row: &Row, column: &str) -> Result<Option<String>, Fault> {
    get::<Option<Json>>(row, column).map(|json| json.map(|json| json.0))
}

/// A number that is never negative.
pub(super) fn unsigned(row: &Row, column: &str) -> Result<u32, Fault> {
    get::<i32>(row, column).map(i32::unsigned_abs)
}

/// A count that is never negative.
pub(super) fn count(row: &Row, column: &str) -> Result<u32, Fault> {
    get::<i64>(row, column).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// The three counters of a job.
pub(super) fn counters(row: &Row) -> Result<Counters, Fault> {
    Ok(Counters {
        attempts: unsigned(row, "attempts")?,
        given_back: unsigned(row, "given_back")?,
        recoveries: unsigned(row, "recoveries")?,
    })
}

/// The two budgets of a job.
pub(super) fn budgets(row: &Row) -> Result<Budgets, Fault> {
    let budget = |column| {
        get::<Option<i64>>(row, column).map(|budget| budget.map(|budget| u32::try_from(budget).unwrap_or(u32::MAX)))
    };
    Ok(Budgets { max_attempts: budget("max_attempts")?, max_recoveries: budget("max_recoveries")? })
}

/// The request to cancel that a lease carries.
pub(super) fn cancel_request(row: &Row) -> Result<Option<CancelRequest>, Fault> {
    let reason: Option<String> = get(row, "cancel_reason")?;
    let asked: bool = get(row, "cancel_requested")?;
    Ok(asked.then(|| CancelRequest { reason: reason.unwrap_or_default() }))
}

/// The kind of an outcome.
pub(super) fn outcome_kind(row: &Row) -> Result<OutcomeKind, Fault> {
    let word: &str = get(row, "kind")?;
    OutcomeKind::parse(word).ok_or_else(|| Fault::broken(format!("unknown outcome {word:?}")))
}

/// A number as PostgreSQL's four-byte integer.
pub(super) fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Microseconds as the factor of an interval. Exact up to 2^53, which is 285 years.
#[allow(clippy::cast_precision_loss)]
pub(super) fn factor(micros: Micros) -> f64 {
    micros as f64
}

/// A column that may hold nothing, as an array to unnest beside others. Where all of it is nothing, the array is empty, and
/// `unnest` makes up for it: each array takes the server some 0.7 us per row, and most jobs use few of the columns.
pub(super) fn sparse<T>(column: impl Iterator<Item = Option<T>>) -> Vec<Option<T>> {
    let column: Vec<Option<T>> = column.collect();
    if column.iter().all(Option::is_none) { Vec::new() } else { column }
}

/// Whether PostgreSQL could hold this text: all but NUL. What cannot be stored is nowhere to be found.
pub(super) fn storable(text: &str) -> bool {
    !text.contains('\0')
}
