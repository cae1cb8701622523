"""What the questions and commands about stored jobs answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from bandog._core import JobRecord

__all__ = ["Cancellation", "FailedLane", "Page", "QueueStats", "Stats"]


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What became of a request to cancel a job.

    Attributes:
        kind: ``cancelled`` (it was queued, and never runs), ``requested`` (it is running: its executor is told, and the
            job ends as that reports) or ``settled`` (it had its outcome before; nothing was changed).
        outcome: the kind of that outcome, for ``settled``; ``None`` otherwise.
    """

    kind: str
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class FailedLane:
    """What failing a lane did.

    Attributes:
        failed: how many jobs were settled ``failed``.
        left: how many are still queued in the lane, counted up to 10,000. Call again while there are any.
    """

    failed: int
    left: int


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list of jobs; iterates over them.

    Attributes:
        jobs: the records.
        next: what to pass as ``after`` for the next page; ``None`` after the last.
    """

    jobs: tuple[JobRecord, ...]
    next: str | None = None

    def __iter__(self) -> Iterator[JobRecord]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """What is in a queue.

    Attributes:
        queued: queued jobs, those for later included.
        due: queued jobs that are due.
        running: claimed jobs.
        oldest_due: since when the longest waiting job is due, an aware ``datetime``; ``None`` where none is.
    """

    queued: int
    due: int
    running: int
    oldest_due: datetime | None


@dataclass(frozen=True, slots=True)
class Stats:
    """What is in a store. Counting stops at a bound, so that asking stays cheap with millions of jobs.

    Attributes:
        queues: by name, the queues that have queued or running jobs.
        outcomes: how many jobs have each outcome, by its kind.
        bound: no count of queued or settled jobs goes beyond it: one that is equal to it means "at least".
    """

    queues: Mapping[str, QueueStats] = field(default_factory=dict[str, QueueStats])
    outcomes: Mapping[str, int] = field(default_factory=dict[str, int])
    bound: int = 0
