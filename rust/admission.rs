//! What may be stored, decided before any SQL and the same on every store.
//!
//! Names (`job_id`, queue, lane, worker) are opaque and compared as they are: no trimming, no folding of case, no Unicode
//! normalisation. What is refused is what some store, log line or command line could not carry.

use crate::error::{Error, Result};
use crate::job::{Backoff, ClaimRequest, Due, Micros, NewJob, OutcomeKind, Report};
use crate::json::{Refusal, Writer};
use crate::options::SHORTEST_LEASE;

/// The longest name, in characters: as many four-byte ones still fit every store's index.
pub const LONGEST_NAME: usize = 255;

/// The latest time that every store and host can carry: 9999-12-31T23:59:59.999999Z.
pub const LATEST: Micros = 253_402_300_799_999_999;

/// The longest duration: ten thousand years of seconds would not fit, a century always does.
pub const LONGEST_DURATION: Micros = 100 * 366 * 86_400 * 1_000_000;

fn invalid<T>(field: &'static str, problem: impl Into<String>) -> Result<T> {
    Err(Error::Invalid { field, problem: problem.into() })
}

/// A name that can be stored: 1 to 255 characters, none of them a control character.
///
/// # Errors
/// `Invalid` with the field.
pub fn name(field: &'static str, value: &str) -> Result<()> {
    if value.is_empty() {
        return invalid(field, "must not be empty");
    }
    if value.len() > LONGEST_NAME && value.chars().count() > LONGEST_NAME {
        return invalid(field, format!("must have at most {LONGEST_NAME} characters"));
    }
    if let Some(character) = value.chars().find(|character| character.is_control()) {
        return invalid(field, format!("must not contain control characters (found U+{:04X})", u32::from(character)));
    }
    Ok(())
}

/// A duration that is not negative and at most a century.
///
/// # Errors
/// `Invalid` with the field.
pub fn duration(field: &'static str, value: Micros) -> Result<()> {
    if (0..=LONGEST_DURATION).contains(&value) {
        return Ok(());
    }
    invalid(field, "must be from 0 seconds to 100 years")
}

/// A back-off whose cap is not below its base.
///
/// # Errors
/// `Invalid` with what is wrong.
pub fn backoff(backoff: &Backoff) -> Result<()> {
    duration("backoff base", backoff.base)?;
    duration("backoff cap", backoff.cap)?;
    if backoff.cap < backoff.base {
        return invalid("backoff cap", "must not be below the base");
    }
    if !(0.0..=1.0).contains(&backoff.jitter) {
        return invalid("backoff jitter", "must be from 0 to 1");
    }
    Ok(())
}

/// A job that can be stored. Its payload is canonical already.
///
/// # Errors
/// `Invalid` with the first field that is wrong.
pub fn job(job: &NewJob) -> Result<()> {
    name("job_id", &job.job_id)?;
    name("queue", &job.queue)?;
    name("lane", &job.lane)?;
    if job.budgets.max_attempts == Some(0) {
        return invalid("max_attempts", "must be at least 1, or None for no retries");
    }
    if let Some(own) = &job.backoff {
        backoff(own)?;
    }
    if let Some(timeout) = job.timeout {
        duration("timeout", timeout)?;
        if timeout == 0 {
            return invalid("timeout", "must be longer than 0 seconds, or None for none");
        }
    }
    match job.due {
        Due::Now => Ok(()),
        Due::After(delay) => duration("delay", delay),
        Due::At(at) if (0..=LATEST).contains(&at) => Ok(()),
        Due::At(_) => invalid("available_at", "must be from 1970 to 9999"),
    }
}

/// A lease that renewals can keep.
///
/// # Errors
/// `Invalid` where it is too short or too long.
pub fn lease(lease: Micros) -> Result<()> {
    if lease < SHORTEST_LEASE {
        return invalid("lease", "must be at least 0.5 seconds");
    }
    duration("lease", lease)
}

/// How many rows a call may touch.
///
/// # Errors
/// `Invalid` for none.
pub fn limit(field: &'static str, limit: u32) -> Result<()> {
    if limit == 0 { invalid(field, "must be at least 1") } else { Ok(()) }
}

/// Which outcomes to look for.
///
/// # Errors
/// `Invalid` for none.
pub fn outcomes(outcomes: &[OutcomeKind]) -> Result<()> {
    if outcomes.is_empty() {
        invalid("outcomes", "must name at least one outcome, or be None for all of them")
    } else {
        Ok(())
    }
}

/// How many bytes a canonical payload may have.
///
/// # Errors
/// `Invalid` for none.
pub fn payload_limit(bytes: u32) -> Result<usize> {
    match usize::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => invalid("payload_limit", "must be from 1 to 4294967295"),
    }
}

/// A claim call that can be carried out.
///
/// # Errors
/// `Invalid` with the first argument that is wrong.
pub fn claim(request: &ClaimRequest) -> Result<()> {
    name("worker", &request.worker)?;
    limit("limit", request.limit)?;
    if let Some(queues) = &request.queues {
        if queues.is_empty() {
            return invalid("queues", "must name at least one queue, or be None for all of them");
        }
        for queue in queues {
            name("queues", queue)?;
        }
    }
    request.lease.map_or(Ok(()), lease)
}

/// What a completed job with a result that cannot be stored becomes: failed, finally. Running it again would not help.
#[must_use]
pub fn unstorable_result(refusal: &Refusal) -> Report {
    Report::Failed {
        reason: format!("result not storable: at {}: {}", refusal.path, refusal.problem),
        retry: false,
        retry_in: None,
        backoff: None,
    }
}

/// What is stored in place of evidence that cannot be: canonical JSON that says so.
#[must_use]
pub fn unstorable_evidence(refusal: &Refusal) -> String {
    let mut writer = Writer::new(usize::MAX);
    // The text is made of whole characters and the limit is out of reach, so that the writer refuses nothing.
    let _ = writer.string(&format!("evidence not storable: at {}: {}", refusal.path, refusal.problem));
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_some_user_will_choose() {
        let long = "é".repeat(LONGEST_NAME);
        for fine in ["a:b", "a/b", "../x", "%2F", " ", "0", "'\"`", "🐕", "Case", "case", "trailing ", long.as_str()]
        {
            assert_eq!(name("job_id", fine), Ok(()), "{fine:?}");
        }
        let too_long = "x".repeat(LONGEST_NAME + 1);
        for refused in ["", "a\nb", "\0", "\u{7f}", "\u{85}", too_long.as_str()] {
            assert!(name("job_id", refused).is_err(), "{refused:?}");
        }
    }
}
