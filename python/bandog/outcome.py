"""What an executor reports, and what a job's record shows.

An executor returns one of ``Completed``, ``Failed``, ``Cancelled``, ``OutcomeUnknown``, ``Snooze`` or ``Release``;
``None`` means ``Completed()``, and raising means ``Failed``. ``Interrupted`` is recorded by recovery alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from bandog.job import Backoff

__all__ = [
    "Cancelled",
    "Completed",
    "Failed",
    "Interrupted",
    "Outcome",
    "OutcomeUnknown",
    "Release",
    "Report",
    "Settlement",
    "Snooze",
]


@dataclass(frozen=True, slots=True)
class Completed:
    """The work is done.

    Attributes:
        result: any JSON value, kept with the outcome. One that cannot be stored makes the job ``failed`` instead,
            finally, with an error that says so: never a success without its result, and never a second run.
    """

    kind: ClassVar[str] = "completed"
    result: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The work failed. While charged attempts are left the job is tried again; otherwise it is a dead letter.

    Attributes:
        reason: what happened. Characters that no store can keep are replaced.
        retry: ``False`` makes the failure final whatever the budgets.
        retry_in: seconds (float) or ``timedelta`` until the next attempt, instead of the back-off.
        backoff: the back-off of this failure, instead of the job's.
    """

    kind: ClassVar[str] = "failed"
    reason: str = ""
    retry: bool = True
    retry_in: float | timedelta | None = None
    backoff: Backoff | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The executor stopped because it was told to.

    Attributes:
        reason: why, where it says so.
    """

    kind: ClassVar[str] = "cancelled"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The evidence cannot establish what happened: the effect may or may not have taken place (seed 1).

    Attributes:
        evidence: any JSON value. Where it cannot be stored, a note that says so is kept instead.
    """

    kind: ClassVar[str] = "outcome_unknown"
    evidence: Any = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The claim was lost and no recovery was left: effects unknown, not run again. A dead letter.

    Attributes:
        reason: how it was lost.
    """

    kind: ClassVar[str] = "interrupted"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now: run the job later. The attempt is given back.

    Attributes:
        delay: seconds (float) or ``timedelta``.
    """

    kind: ClassVar[str] = "snooze"
    delay: float | timedelta = 0.0


@dataclass(frozen=True, slots=True)
class Release:
    """Not by me: hand the job back at once. The attempt is given back."""

    kind: ClassVar[str] = "release"


Outcome: TypeAlias = Completed | Failed | Cancelled | OutcomeUnknown | Interrupted
Report: TypeAlias = Completed | Failed | Cancelled | OutcomeUnknown | Snooze | Release


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of a claim that was settled.

    Attributes:
        kind: ``completed``, ``failed``, ``cancelled``, ``outcome_unknown`` (the job has its outcome), ``retried``,
            ``snoozed``, ``released`` (it is queued again), ``stale`` (the claim had ended before; nothing was
            changed), ``not_found`` (there is no such job) or ``busy`` (one of many on PostgreSQL, which another
            transaction kept locked; it still holds). Settling a claim again returns what was recorded the first time.
        available_at: when a job that was put back is due, an aware ``datetime``; ``None`` otherwise.
    """

    kind: str
    available_at: datetime | None = None
