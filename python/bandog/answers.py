"""What the questions and commands about stored jobs answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from bandog._core import JobRecord

__all__ = ["Cancellation", "FailedLane", "Page", "QueueStats", "Snapshot", "Stats"]


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
class Snapshot:
    """A view of the past that a PostgreSQL server keeps dead rows for: no vacuum removes them before it ends.

    A role of its own sees the sessions of other roles, but not since when their transactions run; a member of
    ``pg_read_all_stats`` sees that too.

    Attributes:
        kind: ``session`` (a connection whose transaction is open, or a standby that reports to its primary),
            ``prepared`` (a prepared transaction) or ``slot`` (a replication slot).
        holder: who has it: the number of the server's process, as in ``pg_stat_activity``, the id of the prepared
            transaction, or the slot's name.
        application: what a session calls itself (``application_name``); ``None`` where it does not.
        age: seconds since its transaction began (was prepared, for a prepared one); ``None`` where that is not known,
            as for a slot, or not shown to this role.
        transactions: how many transactions have begun in the server since: what vacuum goes by, and always known.
    """

    kind: str
    holder: str
    application: str | None
    age: float | None
    transactions: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What is in a store. Counting stops at a bound, so that asking stays cheap with millions of jobs.

    Attributes:
        queues: by name, the queues that have queued or running jobs.
        outcomes: how many jobs have each outcome, by its kind.
        bound: no count of queued or settled jobs goes beyond it: one that is equal to it means "at least".
        oldest_snapshot: what has kept the server from removing dead rows of this database for the longest time, so that
            its tables grow; ``None`` where nothing does, and for SQLite files. A healthy one
            is seconds old. It is about the server rather than about jobs, and two answers are equal whatever it is.
    """

    queues: Mapping[str, QueueStats] = field(default_factory=dict[str, QueueStats])
    outcomes: Mapping[str, int] = field(default_factory=dict[str, int])
    bound: int = 0
    oldest_snapshot: Snapshot | None = field(default=None, compare=False)
