"""What a report makes of a running job: the twin of ``rust/transition.rs``, held to it by ``tests/transaction``."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = [
    "Backoff",
    "Counters",
    "Next",
    "PutBack",
    "Report",
    "Rules",
    "Settle",
    "after_report",
    "needs_rules",
    "record",
    "recorded",
]

OUTCOMES = {"completed", "failed", "cancelled", "outcome_unknown", "interrupted"}

SECOND = 1_000_000


class Counters(NamedTuple):
    """How often a job was tried, and what of it counts."""

    attempts: int = 0
    given_back: int = 0
    recoveries: int = 0

    @property
    def charged(self) -> int:
        """The attempts that count against ``max_attempts``."""
        return max(self.attempts - self.given_back, 0)


class Backoff(NamedTuple):
    """The wait between attempts, in microseconds."""

    base: int = SECOND
    cap: int = 60 * SECOND
    jitter: float = 0.0


class Rules(NamedTuple):
    """What of the job a decision needs."""

    max_attempts: int | None = None
    max_recoveries: int | None = None
    backoff: Backoff | None = None


class Report(NamedTuple):
    """A report that was read and checked, in the parts of ``FrozenReport``: microseconds, canonical JSON."""

    kind: str
    text: str | None
    retry: bool
    wait: int | None
    backoff: Backoff | None


class Settle(NamedTuple):
    """The job is settled."""

    kind: str
    counters: Counters
    result: str | None = None
    error: str | None = None
    evidence: str | None = None


class PutBack(NamedTuple):
    """The job is queued again, in so many microseconds; ``answer`` is how its holder is answered."""

    counters: Counters
    delay: int
    error: str | None
    answer: str


Next: TypeAlias = Settle | PutBack


def needs_rules(report: Report) -> bool:
    """Whether a report can put the job back, so that its :class:`Rules` must be looked up."""
    return report.kind in {"failed", "snooze", "release"}


def after_report(
    report: Report, counters: Counters, rules: Rules, cancel_reason: str | None, *, is_cancel_asked: bool, chance: float
) -> Next:
    """What a report makes of the job. ``chance`` is a random number from 0 to 1, for the jitter."""
    kind, text = report.kind, report.text
    if kind == "completed":
        return Settle("completed", counters, result=text)
    if kind == "cancelled":
        return Settle("cancelled", counters, error=cancel_reason if text is None and is_cancel_asked else text)
    if kind == "outcome_unknown":
        return Settle("outcome_unknown", counters, evidence=text)
    if kind == "failed":
        has_attempts = rules.max_attempts is not None and counters.charged < rules.max_attempts
        if not report.retry or not has_attempts or is_cancel_asked:
            return Settle("failed", counters, error=text)
        wait = report.wait
        if wait is None:
            wait = backoff_delay(report.backoff or rules.backoff or Backoff(), counters.charged, chance)
        return PutBack(counters, wait, text, "retried")
    given_back = counters._replace(given_back=counters.given_back + 1)
    if is_cancel_asked:
        return Settle("cancelled", given_back, error=cancel_reason)
    if kind == "snooze":
        return PutBack(given_back, report.wait or 0, None, "snoozed")
    return PutBack(given_back, 0, None, "released")


def record(following: PutBack) -> str:
    """How the answer to a put-back is recorded.

    With the attempt, so that it can be repeated only in part once the job has been claimed again.
    """
    return f"{following.answer} {following.counters.attempts}"


def recorded(report: str | None, available_at: int | None, attempts: int) -> tuple[str, int | None]:
    """The answer that was recorded for the token that ended a claim: a word, and when a job that was put back is due.

    Args:
        report: what was recorded; ``None`` for nothing.
        available_at: where a queued job waits now.
        attempts: how often it has been claimed by now.
    """
    word, _, attempt = (report or "").partition(" ")
    if word in {"retried", "snoozed"}:
        # Put back again since, after another claim was lost: where the job waits now is not what was answered then.
        return word, available_at if attempt == str(attempts) else None
    return (word, None) if word in OUTCOMES or word == "released" else ("stale", None)


def backoff_delay(backoff: Backoff, charged: int, chance: float) -> int:
    """The wait before the next attempt: doubling up to the cap, shortened by up to ``jitter`` of itself, at least 1."""
    doublings = max(charged - 1, 0)
    full = backoff.cap if doublings >= 63 else min(backoff.base << doublings, backoff.cap)  # noqa: PLR2004 - bits
    return max(full - int(full * min(max(backoff.jitter, 0.0), 1.0) * chance), 1)
