//! The state machine's decisions, without a database: what a report, or the loss of a claim, makes of a running job.
//!
//! Stores read the claim and the budgets, ask here, and write what comes back in the same transaction.

use crate::job::{Backoff, Budgets, Counters, Due, Micros, OutcomeKind, Report, Settlement};

/// Where a running job goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// It is settled.
    Settle {
        /// The outcome.
        kind: OutcomeKind,
        /// Its counters at the end.
        counters: Counters,
        /// Canonical JSON.
        result: Option<String>,
        /// What happened, in words.
        error: Option<String>,
        /// Canonical JSON.
        evidence: Option<String>,
    },
    /// It is queued again.
    PutBack {
        /// The counters that it carries.
        counters: Counters,
        /// When it may run.
        due: Due,
        /// What happened, in words.
        error: Option<String>,
        /// How the holder's report is answered; `None` where there was no report.
        answer: Option<PutBack>,
    },
}

/// The three ways in which a report puts a job back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// Failed, attempts left.
    Retried,
    /// Snoozed.
    Snoozed,
    /// Released.
    Released,
}

impl PutBack {
    /// The answer to the holder.
    #[must_use]
    pub fn settlement(self, available_at: Option<Micros>) -> Settlement {
        match self {
            Self::Retried => Settlement::Retried { available_at },
            Self::Snoozed => Settlement::Snoozed { available_at },
            Self::Released => Settlement::Released,
        }
    }
}

/// What of the job a decision needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// The job's budgets.
    pub budgets: Budgets,
    /// The job's own back-off.
    pub backoff: Option<Backoff>,
}

/// A request to cancel that was recorded while the claim ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelRequest {
    /// The reason that was given with it.
    pub reason: String,
}

/// Whether a report can put the job back, so that [`Rules`] must be looked up before asking [`after_report`].
#[must_use]
pub fn needs_rules(report: &Report) -> bool {
    matches!(report, Report::Failed { .. } | Report::Snooze { .. } | Report::Release)
}

/// What a report makes of the job. `chance` is a random number from 0 to 1, for the jitter.
#[must_use]
pub fn after_report(
    report: Report,
    counters: Counters,
    rules: &Rules,
    cancel: Option<&CancelRequest>,
    chance: f64,
) -> Next {
    let settle = |kind, result, error, evidence| Next::Settle { kind, counters, result, error, evidence };
    let given_back = Counters { given_back: counters.given_back.saturating_add(1), ..counters };
    match report {
        Report::Completed { result } => settle(OutcomeKind::Completed, result, None, None),
        Report::Cancelled { reason } => {
            let reason = reason.or_else(|| cancel.map(|request| request.reason.clone()));
            settle(OutcomeKind::Cancelled, None, reason, None)
        }
        Report::OutcomeUnknown { evidence } => settle(OutcomeKind::OutcomeUnknown, None, None, evidence),
        Report::Failed { reason, retry, retry_in, backoff } => {
            let left = rules.budgets.max_attempts.is_some_and(|most| counters.charged() < most);
            if !retry || !left || cancel.is_some() {
                return settle(OutcomeKind::Failed, None, Some(reason), None);
            }
            let backoff = backoff.or(rules.backoff).unwrap_or_default();
            let wait = retry_in.unwrap_or_else(|| backoff_delay(&backoff, counters.charged(), chance));
            Next::PutBack { counters, due: Due::After(wait), error: Some(reason), answer: Some(PutBack::Retried) }
        }
        Report::Snooze { .. } | Report::Release if cancel.is_some() => Next::Settle {
            kind: OutcomeKind::Cancelled,
            counters: given_back,
            result: None,
            error: cancel.map(|request| request.reason.clone()),
            evidence: None,
        },
        Report::Snooze { delay } => {
            Next::PutBack { counters: given_back, due: Due::After(delay), error: None, answer: Some(PutBack::Snoozed) }
        }
        Report::Release => {
            Next::PutBack { counters: given_back, due: Due::Now, error: None, answer: Some(PutBack::Released) }
        }
    }
}

/// What the loss of a claim makes of the job. `reason` says how it was lost.
#[must_use]
pub fn after_loss(counters: Counters, budgets: Budgets, cancel: Option<&CancelRequest>, reason: String) -> Next {
    let recoveries_left = match (budgets.max_attempts, budgets.max_recoveries) {
        (_, Some(most)) => counters.recoveries < most,
        (None, None) => counters.recoveries < 1,
        (Some(_), None) => true,
    };
    let attempts_left = budgets.max_attempts.is_none_or(|most| counters.charged() < most);
    if recoveries_left && attempts_left && cancel.is_none() {
        return Next::PutBack {
            counters: Counters { recoveries: counters.recoveries.saturating_add(1), ..counters },
            due: Due::Now,
            error: Some(reason),
            answer: None,
        };
    }
    Next::Settle { kind: OutcomeKind::Interrupted, counters, result: None, error: Some(reason), evidence: None }
}

/// Why a lost claim was lost, for the record.
#[must_use]
pub fn loss_reason(worker: &str, attempts: u32, how: &str) -> String {
    format!("the claim of worker {worker:?} was lost: {how} (attempt {attempts})")
}

/// What is kept of a report that put a job back, so that its answer can be given again: with the attempt, so that it can be
/// repeated only in part once the job has been claimed again.
#[must_use]
pub fn record(answer: PutBack, counters: Counters) -> String {
    format!("{} {}", answer.settlement(None).as_str(), counters.attempts)
}

/// The answer that was recorded for the token that ended a claim: a word, and after a put-back the attempt. `available_at` is
/// where a queued job waits now, `attempts` how often it has been claimed by now.
#[must_use]
pub fn recorded(report: &str, available_at: Option<Micros>, attempts: u32) -> Settlement {
    let (word, attempt) = report.split_once(' ').unwrap_or((report, ""));
    // Put back again since, after another claim was lost: where the job waits now is not what was answered then.
    let available_at = available_at.filter(|_| attempt.parse() == Ok(attempts));
    match word {
        "retried" => Settlement::Retried { available_at },
        "snoozed" => Settlement::Snoozed { available_at },
        "released" => Settlement::Released,
        kind => OutcomeKind::parse(kind).map_or(Settlement::Stale, Settlement::Settled),
    }
}

/// The wait before the next attempt: doubling from `base` to `cap`, then shortened by up to `jitter` of itself, and at
/// least one microsecond. Integers throughout: a float overflowed elsewhere and a shift wrapped to a hot retry.
#[must_use]
pub fn backoff_delay(backoff: &Backoff, charged: u32, chance: f64) -> Micros {
    let doublings = charged.saturating_sub(1);
    let full =
        if doublings >= 63 { backoff.cap } else { backoff.base.saturating_mul(1_i64 << doublings).min(backoff.cap) };
    // At most 2^53 µs (285 years) is ever asked for, so the conversion to a float and back is exact enough.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    let cut = (full as f64 * backoff.jitter.clamp(0.0, 1.0) * chance.clamp(0.0, 1.0)) as Micros;
    (full - cut).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(attempts: u32, given_back: u32, recoveries: u32) -> Counters {
        Counters { attempts, given_back, recoveries }
    }

    fn budgets(max_attempts: Option<u32>, max_recoveries: Option<u32>) -> Budgets {
        Budgets { max_attempts, max_recoveries }
    }

    fn failed(rules: Rules, at: Counters, cancel: Option<&CancelRequest>) -> Next {
        let report = Report::Failed { reason: "why".into(), retry: true, retry_in: None, backoff: None };
        after_report(report, at, &rules, cancel, 0.0)
    }

    fn lost(at: Counters, of: Budgets, cancel: Option<&CancelRequest>) -> &'static str {
        match after_loss(at, of, cancel, "lost".into()) {
            Next::PutBack { .. } => "put back",
            Next::Settle { kind, .. } => kind.as_str(),
        }
    }

    #[test]
    fn a_failure_is_final_without_max_attempts() {
        let next = failed(Rules::default(), counters(1, 0, 0), None);
        assert!(matches!(next, Next::Settle { kind: OutcomeKind::Failed, .. }));
    }

    #[test]
    fn a_failure_is_retried_while_charged_attempts_are_left() {
        let rules = Rules { budgets: budgets(Some(2), None), backoff: None };
        assert!(matches!(failed(rules, counters(1, 0, 0), None), Next::PutBack { due: Due::After(SECOND), .. }));
        assert!(matches!(failed(rules, counters(2, 0, 0), None), Next::Settle { .. }));
        // An attempt that was given back does not count.
        assert!(matches!(failed(rules, counters(2, 1, 0), None), Next::PutBack { due: Due::After(SECOND), .. }));
    }

    #[test]
    fn lost_claims_are_bounded_by_every_combination_of_budgets() {
        assert_eq!(lost(counters(1, 0, 0), budgets(None, None), None), "put back");
        assert_eq!(lost(counters(2, 0, 1), budgets(None, None), None), "interrupted");
        assert_eq!(lost(counters(1, 0, 0), budgets(None, Some(0)), None), "interrupted");
        assert_eq!(lost(counters(3, 0, 2), budgets(None, Some(3)), None), "put back");
        assert_eq!(lost(counters(2, 0, 2), budgets(Some(3), None), None), "put back");
        assert_eq!(lost(counters(3, 0, 2), budgets(Some(3), None), None), "interrupted");
        assert_eq!(lost(counters(2, 0, 1), budgets(Some(9), Some(1)), None), "interrupted");
    }

    #[test]
    fn a_cancel_request_ends_every_put_back() {
        let asked = CancelRequest { reason: "no longer wanted".into() };
        let rules = Rules { budgets: budgets(Some(9), None), backoff: None };
        let at = counters(1, 0, 0);
        assert!(matches!(failed(rules, at, Some(&asked)), Next::Settle { kind: OutcomeKind::Failed, .. }));
        for report in [Report::Release, Report::Snooze { delay: SECOND }] {
            let next = after_report(report, at, &rules, Some(&asked), 0.0);
            assert!(matches!(next, Next::Settle { kind: OutcomeKind::Cancelled, .. }));
        }
        assert_eq!(lost(at, rules.budgets, Some(&asked)), "interrupted");
    }

    #[test]
    fn a_backoff_never_overflows_and_never_reaches_zero() {
        for base in [1, SECOND, i64::MAX / 2] {
            let backoff = Backoff { base, cap: 3600 * SECOND, jitter: 1.0 };
            let mut last = 0;
            for charged in [0, 1, 2, 16, 63, 64, 65, 1024, 1100, 1_000_000, u32::MAX] {
                let full = backoff_delay(&backoff, charged, 0.0);
                assert!(full >= last && full >= 1 && full <= backoff.cap, "{base} {charged} {full}");
                assert!((1..=full).contains(&backoff_delay(&backoff, charged, 1.0)));
                last = full;
            }
        }
    }

    const SECOND: Micros = crate::job::SECOND;
}
