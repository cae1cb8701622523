//! Python values to the engine's, and back.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple, PyType};
use pyo3::{Py, intern};

use super::error::{Converted, Failure};
use super::json::{self, Fault};
use crate::error::Error;
use crate::job::{Backoff, Budgets, ClaimName, Due, Micros, NewJob, OutcomeKind, Report};
use crate::management::{Cursor, StateFilter};

pub(super) fn invalid<T>(field: &'static str, problem: impl Into<String>) -> Converted<T> {
    Err(Failure::Refused(Error::Invalid { field, problem: problem.into() }))
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string())
}

/// An attribute; anything that goes wrong in reading it is the caller's object's fault.
fn attribute<'py>(
    value: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    field: &'static str,
) -> Converted<Bound<'py, PyAny>> {
    value.getattr(name).or_else(|error| invalid(field, format!("cannot be read: {error}")))
}

/// A string of whole characters.
pub(super) fn text(value: &Bound<'_, PyAny>, field: &'static str) -> Converted<String> {
    let Ok(text) = value.cast::<PyString>() else {
        return invalid(field, format!("must be a str, not {}", type_name(value)));
    };
    match text.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => invalid(field, "must be valid Unicode: it contains a lone surrogate"),
    }
}

fn optional_text(value: &Bound<'_, PyAny>, field: &'static str) -> Converted<Option<String>> {
    if value.is_none() { Ok(None) } else { text(value, field).map(Some) }
}

/// Text of an error or reason: whatever it is, it is stored.
fn any_text(value: &Bound<'_, PyAny>) -> Option<String> {
    if value.is_none() {
        return None;
    }
    let text = value.cast::<PyString>().cloned().or_else(|_| value.str());
    Some(text.map_or_else(|_| format!("<{}>", type_name(value)), |text| json::storable_text(&text)))
}

/// `True` or `False`, and nothing that merely counts as one of them.
pub(super) fn flag(value: &Bound<'_, PyAny>, field: &'static str) -> Converted<bool> {
    value.extract().or_else(|_| invalid(field, format!("must be True or False, not {}", type_name(value))))
}

/// Two things in a tuple.
pub(super) fn pair<'py>(
    value: &Bound<'py, PyAny>,
    field: &'static str,
) -> Converted<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    match value.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => pair.extract().map_err(Failure::Raised),
        _ => invalid(field, format!("must be pairs of a claim and an outcome, not {}", type_name(value))),
    }
}

/// A whole number; `bool` is none, though Python counts it among them.
pub(super) fn integer<'py, T: FromPyObjectOwned<'py>>(
    value: &Bound<'py, PyAny>,
    field: &'static str,
    range: &str,
) -> Converted<T> {
    if !value.is_instance_of::<PyInt>() || value.is_instance_of::<PyBool>() {
        return invalid(field, format!("must be an int, not {}", type_name(value)));
    }
    value.extract().or_else(|_| invalid(field, format!("must be {range}")))
}

fn optional_integer<'py, T: FromPyObjectOwned<'py>>(
    value: &Bound<'py, PyAny>,
    field: &'static str,
    range: &str,
) -> Converted<Option<T>> {
    if value.is_none() { Ok(None) } else { integer(value, field, range).map(Some) }
}

/// Seconds (int, float) or a `timedelta`, in microseconds.
pub(super) fn duration(value: &Bound<'_, PyAny>, field: &'static str) -> Converted<Micros> {
    let py = value.py();
    let whole = |name: &Bound<'_, PyString>| -> Converted<i64> {
        let part = attribute(value, name, field)?;
        part.extract().or_else(|_| invalid(field, "is out of range"))
    };
    if value.is_instance_of::<PyBool>() {
        return invalid(field, "must be seconds (int or float) or a timedelta, not bool");
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        let Ok(seconds) = value.extract::<f64>() else { return invalid(field, "is out of range") };
        let micros = (seconds * 1e6).round();
        // 2^62: far beyond any duration that is allowed, and safe to convert.
        if !micros.is_finite() || micros.abs() > 4.6e18 {
            return invalid(field, "must be a finite number of seconds");
        }
        #[allow(clippy::cast_possible_truncation)]
        return Ok(micros as Micros);
    }
    if value.is_instance(&datetime_types(py)?.bind(py).timedelta).unwrap_or(false) {
        let days = whole(intern!(py, "days"))?;
        let seconds = whole(intern!(py, "seconds"))?;
        let micros = whole(intern!(py, "microseconds"))?;
        return Ok(days
            .saturating_mul(86_400)
            .saturating_add(seconds)
            .saturating_mul(1_000_000)
            .saturating_add(micros));
    }
    invalid(field, format!("must be seconds (int or float) or a timedelta, not {}", type_name(value)))
}

struct DatetimeTypes {
    datetime: Py<PyAny>,
    timedelta: Py<PyAny>,
    epoch: Py<PyAny>,
}

struct BoundTypes<'py> {
    datetime: Bound<'py, PyAny>,
    timedelta: Bound<'py, PyAny>,
    epoch: Bound<'py, PyAny>,
}

impl DatetimeTypes {
    fn bind<'py>(&self, py: Python<'py>) -> BoundTypes<'py> {
        BoundTypes {
            datetime: self.datetime.bind(py).clone(),
            timedelta: self.timedelta.bind(py).clone(),
            epoch: self.epoch.bind(py).clone(),
        }
    }
}

fn datetime_types(py: Python<'_>) -> Converted<&'static DatetimeTypes> {
    static TYPES: PyOnceLock<DatetimeTypes> = PyOnceLock::new();
    TYPES
        .get_or_try_init(py, || {
            let module = py.import("datetime")?;
            let utc = module.getattr("timezone")?.getattr("utc")?;
            let datetime = module.getattr("datetime")?;
            let epoch = datetime.call1((1970, 1, 1, 0, 0, 0, 0, utc))?;
            Ok::<_, PyErr>(DatetimeTypes {
                timedelta: module.getattr("timedelta")?.unbind(),
                datetime: datetime.unbind(),
                epoch: epoch.unbind(),
            })
        })
        .map_err(Failure::Raised)
}

/// An aware `datetime`, in microseconds since 1970.
pub(super) fn instant(value: &Bound<'_, PyAny>, field: &'static str) -> Converted<Micros> {
    let py = value.py();
    let types = datetime_types(py)?.bind(py);
    if !value.is_instance(&types.datetime).unwrap_or(false) {
        return invalid(field, format!("must be a datetime, not {}", type_name(value)));
    }
    let offset = value.call_method0(intern!(py, "utcoffset"));
    if !offset.is_ok_and(|offset| !offset.is_none()) {
        return invalid(field, "must be an aware datetime: give it a tzinfo, such as datetime.timezone.utc");
    }
    match value.sub(types.epoch) {
        Ok(since) => duration(&since, field),
        Err(error) => invalid(field, format!("is out of range: {error}")),
    }
}

/// Microseconds since 1970 as an aware `datetime` in UTC.
pub(super) fn datetime(py: Python<'_>, micros: Micros) -> PyResult<Bound<'_, PyAny>> {
    let types = datetime_types(py).map_err(|failure| failure.raise(py, None))?.bind(py);
    let since = types.timedelta.call1((0, micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000)))?;
    types.epoch.add(since)
}

/// A Python `Job` (or anything with its attributes) as the engine's.
pub(super) fn new_job<'py>(job: &Bound<'py, PyAny>, payload_limit: usize) -> Result<NewJob, (Failure, Option<String>)> {
    let py = job.py();
    let job_id = (|| {
        let id = attribute(job, intern!(py, "job_id"), "job_id")?;
        Ok(optional_text(&id, "job_id")?.unwrap_or_else(|| uuid::Uuid::now_v7().to_string()))
    })()
    .map_err(|failure| (failure, None))?;
    let convert = || {
        let get = |name: &Bound<'py, PyString>, field| attribute(job, name, field);
        let available_at = get(intern!(py, "available_at"), "available_at")?;
        let delay = get(intern!(py, "delay"), "delay")?;
        let due = match (available_at.is_none(), delay.is_none()) {
            (true, true) => Due::Now,
            (false, true) => Due::At(instant(&available_at, "available_at")?),
            (true, false) => Due::After(duration(&delay, "delay")?),
            (false, false) => return invalid("delay", "cannot be given together with available_at"),
        };
        let timeout = get(intern!(py, "timeout"), "timeout")?;
        let payload = get(intern!(py, "payload"), "payload")?;
        let new = NewJob {
            job_id: job_id.clone(),
            queue: text(&get(intern!(py, "queue"), "queue")?, "queue")?,
            lane: text(&get(intern!(py, "lane"), "lane")?, "lane")?,
            priority: integer(
                &get(intern!(py, "priority"), "priority")?,
                "priority",
                "from -2147483648 to 2147483647",
            )?,
            payload: json::canonical(&payload, payload_limit).map_err(|fault| Failure::json("payload", fault))?,
            budgets: Budgets {
                max_attempts: count(&get(intern!(py, "max_attempts"), "max_attempts")?, "max_attempts")?,
                max_recoveries: count(&get(intern!(py, "max_recoveries"), "max_recoveries")?, "max_recoveries")?,
            },
            backoff: backoff(&get(intern!(py, "backoff"), "backoff")?)?,
            timeout: if timeout.is_none() { None } else { Some(duration(&timeout, "timeout")?) },
            due,
        };
        crate::admission::job(&new)?;
        Ok(new)
    };
    convert().map_err(|failure| (failure, Some(job_id.clone())))
}

/// A count that every store can hold (D1 and PostgreSQL integers are signed).
pub(super) fn count(value: &Bound<'_, PyAny>, field: &'static str) -> Converted<Option<u32>> {
    let count: Option<u32> = optional_integer(value, field, "from 0 to 2147483647")?;
    match count {
        Some(count) if i32::try_from(count).is_err() => invalid(field, "must be from 0 to 2147483647"),
        count => Ok(count),
    }
}

/// A Python `Backoff`, or `None`.
pub(super) fn backoff(value: &Bound<'_, PyAny>) -> Converted<Option<Backoff>> {
    if value.is_none() {
        return Ok(None);
    }
    let py = value.py();
    let jitter = attribute(value, intern!(py, "jitter"), "backoff jitter")?;
    let backoff = Backoff {
        base: duration(&attribute(value, intern!(py, "base"), "backoff base")?, "backoff base")?,
        cap: duration(&attribute(value, intern!(py, "cap"), "backoff cap")?, "backoff cap")?,
        jitter: match jitter.is_instance_of::<PyBool>() {
            true => return invalid("backoff jitter", "must be a number from 0 to 1, not bool"),
            false => jitter.extract().or_else(|_| invalid("backoff jitter", "must be a number from 0 to 1"))?,
        },
    };
    crate::admission::backoff(&backoff)?;
    Ok(Some(backoff))
}

/// How many rows a call may touch.
pub(super) fn limit(value: &Bound<'_, PyAny>, field: &'static str) -> Converted<u32> {
    let limit = integer(value, field, "from 1 to 4294967295")?;
    crate::admission::limit(field, limit)?;
    Ok(limit)
}

/// The text of a reason, in characters that every store can keep.
pub(super) fn reason(value: &Bound<'_, PyAny>, field: &'static str) -> Converted<String> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(json::storable_text(text)),
        Err(_) => invalid(field, format!("must be a str, not {}", type_name(value))),
    }
}

/// The word of an outcome.
pub(super) fn outcome_kind(value: &Bound<'_, PyAny>, field: &'static str) -> Converted<OutcomeKind> {
    let word = text(value, field)?;
    OutcomeKind::parse(&word).map_or_else(
        || {
            let known: Vec<_> = OutcomeKind::ALL.iter().map(|kind| kind.as_str()).collect();
            invalid(field, format!("{word:?} is no outcome; there are {}", known.join(", ")))
        },
        Ok,
    )
}

/// The words of a state and an outcome to list.
pub(super) fn state_filter(
    state: Option<&Bound<'_, PyAny>>,
    outcome: Option<&Bound<'_, PyAny>>,
) -> Converted<Option<StateFilter>> {
    let outcome = outcome.map(|outcome| outcome_kind(outcome, "outcome")).transpose()?;
    let state = state.map(|state| text(state, "state")).transpose()?;
    match (state.as_deref(), outcome) {
        (None, None) => Ok(None),
        (None | Some("settled"), outcome) => Ok(Some(StateFilter::Settled(outcome))),
        (Some("queued" | "running"), Some(_)) => invalid("outcome", "only settled jobs have one"),
        (Some("queued"), None) => Ok(Some(StateFilter::Queued)),
        (Some("running"), None) => Ok(Some(StateFilter::Running)),
        (Some(other), _) => invalid("state", format!("{other:?} is no state; there are queued, running, settled")),
    }
}

/// A place in a list, as callers keep it. `list` names the kind of list, whose places mean nothing to another.
pub(super) fn cursor_text(list: char, cursor: Cursor) -> String {
    format!("{list}{}.{}", cursor.at, cursor.number)
}

/// A place in a list, as it came back.
pub(super) fn cursor(list: char, value: &Bound<'_, PyAny>) -> Converted<Cursor> {
    let text = text(value, "after")?;
    let parsed = text.strip_prefix(list).and_then(|place| {
        let (at, number) = place.split_once('.')?;
        Some(Cursor { at: at.parse().ok()?, number: number.parse().ok()? })
    });
    parsed.map_or_else(|| invalid("after", "must be the `next` of an earlier page of the same list, unchanged"), Ok)
}

/// A claim: a `ClaimedJob`, or `(job_id, lease_token)`.
pub(super) fn claim_name(value: &Bound<'_, PyAny>) -> Converted<ClaimName> {
    if let Ok(claimed) = value.cast::<super::rows::ClaimedJob>() {
        return Ok(ClaimName::Number(claimed.get().key().clone()));
    }
    if let Ok(pair) = value.cast::<PyTuple>()
        && let Ok((job_id, lease_token)) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()
    {
        return Ok(ClaimName::JobId {
            job_id: text(&job_id, "job_id")?,
            lease_token: text(&lease_token, "lease_token")?,
        });
    }
    invalid("claim", format!("must be a ClaimedJob or (job_id, lease_token), not {}", type_name(value)))
}

/// A Python outcome (or `Snooze`, `Release`) as a report. A result or evidence that cannot be stored never costs the job
/// its outcome: then the job fails, finally, and says why.
pub(super) fn report<'py>(value: &Bound<'py, PyAny>, limit: usize) -> Converted<Report> {
    let py = value.py();
    if let Ok(frozen) = value.cast::<super::transfer::FrozenReport>() {
        return Ok(frozen.get().report());
    }
    if value.is_instance_of::<PyType>() {
        return invalid("outcome", "must be an outcome, not its class: call it, as in Completed()");
    }
    let kind = attribute(value, intern!(py, "kind"), "outcome")?;
    let kind = text(&kind, "outcome")?;
    let get = |name: &Bound<'py, PyString>| attribute(value, name, "outcome");
    match kind.as_str() {
        "completed" => {
            let result = get(intern!(py, "result"))?;
            if result.is_none() {
                return Ok(Report::Completed { result: None });
            }
            Ok(match json::canonical(&result, limit) {
                Ok(result) => Report::Completed { result: Some(result) },
                Err(Fault::Refused(refusal)) => crate::admission::unstorable_result(&refusal),
                Err(Fault::Raised(error)) => return Err(Failure::Raised(error)),
            })
        }
        "failed" => {
            let retry_in = get(intern!(py, "retry_in"))?;
            let retry_in = if retry_in.is_none() { None } else { Some(duration(&retry_in, "retry_in")?) };
            if let Some(wait) = retry_in {
                crate::admission::duration("retry_in", wait)?;
            }
            Ok(Report::Failed {
                reason: any_text(&get(intern!(py, "reason"))?).unwrap_or_default(),
                retry: get(intern!(py, "retry"))?.is_truthy().unwrap_or(true),
                retry_in,
                backoff: backoff(&get(intern!(py, "backoff"))?)?,
            })
        }
        "cancelled" => Ok(Report::Cancelled { reason: any_text(&get(intern!(py, "reason"))?) }),
        "outcome_unknown" => {
            let evidence = get(intern!(py, "evidence"))?;
            if evidence.is_none() {
                return Ok(Report::OutcomeUnknown { evidence: None });
            }
            let evidence = match json::canonical(&evidence, limit) {
                Ok(evidence) => evidence,
                Err(Fault::Refused(refusal)) => crate::admission::unstorable_evidence(&refusal),
                Err(Fault::Raised(error)) => return Err(Failure::Raised(error)),
            };
            Ok(Report::OutcomeUnknown { evidence: Some(evidence) })
        }
        "snooze" => {
            let delay = duration(&get(intern!(py, "delay"))?, "delay")?;
            crate::admission::duration("delay", delay)?;
            Ok(Report::Snooze { delay })
        }
        "release" => Ok(Report::Release),
        other => invalid("outcome", format!("{other:?} cannot be reported")),
    }
}
