"""Ingest, as ``rust/store/sqlite/ingest.rs``: admit new jobs, recognise replays, refuse other content."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bandog.stores.records import Admission, JobRecord, instant, record
from bandog.stores.sqlite.beginning import begin
from bandog.stores.sqlite.rows import put_ready
from bandog.stores.transition import Counters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bandog.stores.admission import NewJob
    from bandog.stores.clock import Instants
    from bandog.stores.connections import Connection
    from bandog.stores.driving import Steps
    from bandog.stores.elsewhere import Home

__all__ = ["ingest"]

FIELDS = ("queue", "lane", "priority", "payload", "max_attempts", "max_recoveries")


def ingest(connection: Connection, home: Home, jobs: Sequence[NewJob]) -> Steps[list[Admission]]:
    """Store jobs; one answer per job, in order."""
    now = yield from begin(connection, home)
    ((last,),) = yield partial(connection.query, "ingest_counter")
    # Those that are not needed in the end are skipped for ever.
    yield partial(connection.change, "ingest_counter_set", last + len(jobs))
    ((is_any_bounded,),) = yield partial(connection.query, "lane_limit_any")
    room = _Room(connection) if is_any_bounded else None
    answers: list[Admission] = []
    for number, job in enumerate(jobs, last + 1):
        lane = None if room is None else (yield from room.of(job))
        if lane is not None and lane.left <= 0:
            # A replay is answered before the limit.
            found = yield partial(connection.query, "find_job", job.job_id)
            if not found:
                answers.append(Admission(kind="refused", job_id=job.job_id, limit=lane.limit))
                continue
            is_new = False
        else:
            is_new = (yield partial(connection.change, "ingest", *_columns(number, job, now))) > 0
        if not is_new:
            answers.append((yield from _existing(connection, job, now)))
            continue
        if lane is not None:
            lane.left -= 1
        available_at = yield from put_ready(
            connection, now, number, (job.queue, job.lane, job.priority), Counters(), due_at=job.due_at, delay=job.delay
        )
        answers.append(Admission(kind="admitted", job_id=job.job_id, job=_admitted(job, now, available_at)))
    return answers


def _columns(number: int, job: NewJob, now: Instants) -> tuple[Any, ...]:
    return (
        number,
        job.job_id,
        job.queue,
        job.lane,
        job.priority,
        job.payload,
        job.max_attempts,
        job.max_recoveries,
        *(job.backoff or (None, None, None)),
        job.timeout,
        now.wall,
    )


def _admitted(job: NewJob, now: Instants, available_at: int) -> JobRecord:
    admitted_at = instant(now.wall)
    assert admitted_at is not None  # noqa: S101 - a time was given
    return JobRecord(
        job_id=job.job_id,
        queue=job.queue,
        lane=job.lane,
        priority=job.priority,
        payload_json=job.payload,
        max_attempts=job.max_attempts,
        max_recoveries=job.max_recoveries,
        admitted_at=admitted_at,
        available_at=instant(available_at),
    )


def _existing(connection: Connection, job: NewJob, now: Instants) -> Steps[Admission]:
    """The id is taken: by the same content, or by other content?"""
    (same,) = yield partial(
        connection.query,
        "ingest_existing",
        job.job_id,
        job.queue,
        job.lane,
        job.priority,
        job.payload,
        job.max_attempts,
        job.max_recoveries,
    )
    (row,) = yield partial(connection.query, "read", job.job_id)

    def lease_end(until: int | None) -> Any:
        # Ends of leases are kept in uptime; people read wall time.
        return None if until is None else instant(until + now.wall - now.uptime)

    stored = record(row, instant, lease_end)
    difference = ", ".join(field for field, is_same in zip(FIELDS, same, strict=True) if not is_same)
    if difference:
        return Admission(kind="conflict", job_id=job.job_id, job=stored, difference=difference)
    return Admission(kind="duplicate", job_id=job.job_id, job=stored)


class _Lane:
    """A lane that is bounded."""

    def __init__(self, limit: int, size: int) -> None:
        self.limit = limit
        self.left = max(limit - size, 0)


class _Room:
    """How much room bounded lanes have left, counted once per call and lane."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lanes: dict[tuple[str, str], _Lane | None] = {}

    def of(self, job: NewJob) -> Steps[_Lane | None]:
        """``None`` for a lane without a bound."""
        key = job.queue, job.lane
        if key not in self._lanes:
            self._lanes[key] = yield from self._count(*key)
        return self._lanes[key]

    def _count(self, queue: str, lane: str) -> Steps[_Lane | None]:
        found = yield partial(self._connection.query, "lane_limit", queue, lane)
        if not found:
            return None
        ((limit,),) = found
        if lane == "default":
            ((size,),) = yield partial(self._connection.query, "lane_size_default", queue, limit)
        else:
            ((size,),) = yield partial(self._connection.query, "lane_size", queue, lane, limit)
        return _Lane(limit, size)
