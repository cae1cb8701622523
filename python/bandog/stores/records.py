"""What is answered: the twins of ``Admission`` and ``JobRecord`` of the compiled module, made of a row."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bandog.outcome import Cancelled, Completed, Failed, Interrupted, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bandog.outcome import Outcome

__all__ = ["Admission", "JobRecord", "instant", "microseconds", "record"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(at: datetime) -> int:
    """An aware ``datetime`` as whole microseconds since 1970."""
    return (at - EPOCH) // timedelta(microseconds=1)


def instant(at: int | None) -> datetime | None:
    """Whole microseconds since 1970 as an aware ``datetime``."""
    return None if at is None else EPOCH + timedelta(microseconds=at)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobRecord:
    """Everything that is known of a job. The members are those of :class:`bandog.JobRecord`."""

    job_id: str
    queue: str
    lane: str
    priority: int
    payload_json: str
    max_attempts: int | None
    max_recoveries: int | None
    admitted_at: datetime
    attempts: int = 0
    given_back: int = 0
    recoveries: int = 0
    state: str = "queued"
    available_at: datetime | None = None
    worker: str | None = None
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    cancel_requested_at: datetime | None = None
    cancel_reason: str | None = None
    settled_at: datetime | None = None
    error: str | None = None
    _kind: str | None = field(default=None)
    _result: str | None = field(default=None)
    _evidence: str | None = field(default=None)

    @property
    def payload(self) -> Any:
        """The payload as a Python value, parsed anew each time."""
        return json.loads(self.payload_json)

    @property
    def charged(self) -> int:
        """``attempts - given_back``."""
        return max(self.attempts - self.given_back, 0)

    @property
    def outcome(self) -> Outcome | None:
        """Once ``settled``, what was recorded."""
        if self._kind == "completed":
            return Completed(None if self._result is None else json.loads(self._result))
        if self._kind == "outcome_unknown":
            return OutcomeUnknown(None if self._evidence is None else json.loads(self._evidence))
        if self._kind == "failed":
            return Failed(self.error or "")
        if self._kind == "interrupted":
            return Interrupted(self.error or "")
        return None if self._kind is None else Cancelled(self.error)

    def __repr__(self) -> str:
        outcome = "" if self._kind is None else f" outcome={self._kind}"
        return f"<JobRecord {json.dumps(self.job_id)} state={self.state}{outcome} attempts={self.attempts}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Admission:
    """The answer to one ingested job. The members are those of :class:`bandog.Admission`."""

    kind: str
    job_id: str
    job: JobRecord | None = None
    limit: int | None = None
    difference: str | None = None

    def __repr__(self) -> str:
        return f"<Admission {self.kind} {json.dumps(self.job_id)}>"


def record(row: Sequence[Any], time: Callable[[Any], datetime | None], lease_end: Callable[[Any], Any]) -> JobRecord:
    """The record of a row of ``read``.

    Args:
        row: its columns, in order.
        time: makes a ``datetime`` of a stored time.
        lease_end: the same for the end of a lease.
    """
    (_, job_id, queue, lane, priority, payload, max_attempts, max_recoveries, admitted_at) = row[:9]
    (available_at, attempts, given_back, recoveries, worker, claimed_at, lease_until) = row[9:16]
    (cancel_requested_at, cancel_reason, kind, settled_at, result, error, evidence, is_queued, is_running) = row[16:]
    state = "queued" if is_queued else "running" if is_running else "settled"
    admitted = time(admitted_at)
    assert admitted is not None  # noqa: S101 - no job is without
    return JobRecord(
        job_id=job_id,
        queue=queue,
        lane=lane,
        priority=priority,
        payload_json=payload,
        max_attempts=max_attempts,
        max_recoveries=max_recoveries,
        admitted_at=admitted,
        attempts=attempts,
        given_back=given_back,
        recoveries=recoveries,
        state=state,
        available_at=time(available_at),
        worker=worker,
        claimed_at=time(claimed_at),
        lease_until=lease_end(lease_until),
        cancel_requested_at=time(cancel_requested_at),
        cancel_reason=cancel_reason,
        settled_at=time(settled_at),
        error=error,
        _kind=kind,
        _result=result,
        _evidence=evidence,
    )
