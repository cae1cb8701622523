"""What a worker tells of its work: events, and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Event", "WorkerStats"]


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a job's state that a worker made, told after it was recorded.

    Attributes:
        kind: ``claimed``; what became of a report: ``completed``, ``failed``, ``cancelled``, ``outcome_unknown``,
            ``retried``, ``snoozed``, ``released``, ``stale``; or what became of a lost claim, this worker's or
            another's: ``recovered``, ``interrupted``.
        job_id: the job.
        queue: its queue; ``None`` where another worker held the claim.
        attempt: the number of the claim; ``None`` as for ``queue``.
        available_at: when a job that was put back is due, an aware ``datetime``; ``None`` otherwise.
        reason: what a failure or a cancellation said; ``None`` otherwise.
    """

    kind: str
    job_id: str
    queue: str | None = None
    attempt: int | None = None
    available_at: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStats:
    """What a worker does now, and has done since it was started.

    Attributes:
        state: ``new``, ``running``, ``stopping`` or ``stopped``. Only a ``running`` worker consumes jobs.
        running: executors at work.
        waiting: claimed jobs that wait for one.
        unrecorded: reports that are not in the store yet.
        claimed: claims made.
        started: executors started.
        completed, failed, cancelled, outcome_unknown: jobs that got this outcome from this worker.
        retried, snoozed, released: jobs that were put back.
        stale: reports that came after the claim had ended.
        recovered, interrupted: lost claims that were put back, or that had no recovery left; whoever held them.
        problem: why the store takes or gives nothing at present; ``None`` where it does.
    """

    state: str
    running: int = 0
    waiting: int = 0
    unrecorded: int = 0
    claimed: int = 0
    started: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    outcome_unknown: int = 0
    retried: int = 0
    snoozed: int = 0
    released: int = 0
    stale: int = 0
    recovered: int = 0
    interrupted: int = 0
    problem: str | None = None
