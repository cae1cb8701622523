//! Where the last claim from each queue and priority ended, so that the next one need not read over what is gone.
//!
//! While somebody holds a snapshot open, no dead row can be cleaned up, and a claim that starts at the beginning of its
//! range wades through every job that ever ran: 17,000 jobs a second became 6,000 within half a minute, and stayed at 31,000
//! with this. Jobs that became visible behind the position (their transaction took longer than [`OVERLAP`], or their row was
//! locked when it was passed) are found by a claim from the beginning. Those may take one part in twenty of the time: where
//! they are quick, nearly every claim is one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::values::Time;
use crate::job::Micros;

/// How far before the last claimed job the next claim starts.
const OVERLAP: Micros = 20_000;

/// How much of the time claims from the beginning may take: one part in so many.
const THOROUGH_SHARE: u32 = 20;

/// How many positions are remembered. What is forgotten costs time, not correctness.
const MOST: usize = 256;

/// How long nothing is claimed from one level alone after there was more: what lies in another one may stay there, and not be
/// due, and each claim would be two.
const NOT_SOLE_PAUSE: Duration = Duration::from_secs(1);

/// The positions, by queue and priority.
#[derive(Default)]
pub(super) struct Levels {
    positions: BTreeMap<(String, i32), Micros>,
    thorough_at: Option<Instant>,
    thorough_took: Duration,
    not_sole_at: Option<Instant>,
}

/// The only level of some queues that is remembered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sole {
    pub(super) queue: String,
    pub(super) priority: i32,
    pub(super) since: Time,
    /// The other queues that were named.
    pub(super) others: Vec<String>,
}

/// The positions, as columns to bind.
#[derive(Default)]
pub(super) struct Known {
    pub(super) queues: Vec<String>,
    pub(super) priorities: Vec<i32>,
    pub(super) since: Vec<Time>,
}

impl Levels {
    fn of<'a>(&'a self, queues: Option<&'a [String]>) -> impl Iterator<Item = (&'a String, i32, Time)> {
        let positions = self.positions.iter().map(|((queue, priority), since)| (queue, *priority, Time(*since)));
        positions.filter(move |(queue, ..)| queues.is_none_or(|queues| queues.contains(queue)))
    }

    /// Those of some queues, or all.
    pub(super) fn known(&self, queues: Option<&[String]>) -> Known {
        let mut known = Known::default();
        for (queue, priority, since) in self.of(queues) {
            known.queues.push(queue.clone());
            known.priorities.push(priority);
            known.since.push(since);
        }
        known
    }

    /// The level to claim from alone, where no other one of these queues was claimed from so far.
    pub(super) fn sole(&self, queues: Option<&[String]>) -> Option<Sole> {
        if self.not_sole_at.is_some_and(|at| at.elapsed() < NOT_SOLE_PAUSE) {
            return None;
        }
        let mut levels = self.of(queues);
        let (Some((queue, priority, since)), None) = (levels.next(), levels.next()) else { return None };
        let others = queues.unwrap_or_default().iter().filter(|other| *other != queue).cloned().collect();
        Some(Sole { queue: queue.clone(), priority, since, others })
    }

    /// There was something beside it.
    pub(super) fn was_not_sole(&mut self) {
        self.not_sole_at = Some(Instant::now());
    }

    /// A job was claimed whose turn came at `available_at`.
    pub(super) fn claimed(&mut self, queue: &str, priority: i32, available_at: Micros) {
        let position = available_at.saturating_sub(OVERLAP);
        let level = (queue.to_owned(), priority);
        if let Some(since) = self.positions.get_mut(&level) {
            *since = position.max(*since);
        } else if self.positions.len() < MOST {
            self.positions.insert(level, position);
        }
    }

    /// Whether the next claim is to start from the beginning.
    pub(super) fn is_thorough_due(&self) -> bool {
        self.thorough_at.is_none_or(|at| at.elapsed() >= self.thorough_took * THOROUGH_SHARE)
    }

    /// One has.
    pub(super) fn was_thorough(&mut self, took: Duration) {
        self.thorough_at = Some(Instant::now());
        self.thorough_took = took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_goes_forward_only() {
        let mut levels = Levels::default();
        levels.claimed("mail", 3, 1_000_000);
        levels.claimed("mail", 3, 500_000);
        levels.claimed("other", 0, 7_000_000);
        let known = levels.known(Some(&["mail".into()]));
        assert_eq!(known.queues, ["mail"]);
        assert_eq!(known.priorities, [3]);
        assert_eq!(known.since, [Time(980_000)]);
        assert_eq!(levels.known(None).queues, ["mail", "other"]);
    }

    #[test]
    fn a_level_is_sole_as_long_as_it_is_all_that_is_known_of_its_queues() {
        let mut levels = Levels::default();
        assert_eq!(levels.sole(None), None);
        levels.claimed("mail", 3, 1_000_000);
        let asked = ["other".into(), "mail".into()];
        let sole = Sole { queue: "mail".into(), priority: 3, since: Time(980_000), others: vec!["other".into()] };
        assert_eq!(levels.sole(Some(&asked)), Some(sole));
        assert_eq!(levels.sole(None).map(|sole| sole.others), Some(vec![]));
        assert_eq!(levels.sole(Some(&["other".into()])), None);
        levels.claimed("other", 0, 1_000_000);
        assert_eq!(levels.sole(Some(&asked)), None);
        assert!(levels.sole(Some(&["mail".into()])).is_some());
        levels.was_not_sole();
        assert_eq!(levels.sole(Some(&["mail".into()])), None);
    }

    #[test]
    fn a_claim_from_the_beginning_is_due_at_first_and_rests_in_proportion_to_its_cost() {
        let mut levels = Levels::default();
        assert!(levels.is_thorough_due());
        levels.was_thorough(Duration::from_secs(60));
        assert!(!levels.is_thorough_due());
        levels.was_thorough(Duration::ZERO);
        assert!(levels.is_thorough_due());
    }
}
