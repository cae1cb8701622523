"""Ingest, as ``rust/store/postgres/ingest.rs``, in a transaction of the caller's: admit new jobs, recognise
replays, refuse other content.

Where another transaction holds an id and has not ended yet, the statement waits for it, for as long as the connection's
lock timeout allows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from bandog.errors import StoreBusy
from bandog.stores.postgres.beginning import begin
from bandog.stores.postgres.rows import LARGEST_STATEMENT, moment, read
from bandog.stores.records import Admission, JobRecord, instant, microseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bandog.stores.admission import NewJob
    from bandog.stores.connections import Connection
    from bandog.stores.driving import Steps
    from bandog.stores.elsewhere import Schema

__all__ = ["ingest"]

FIELDS = ("queue", "lane", "priority", "payload", "max_attempts", "max_recoveries")

MOST_LOOKS = 100
"""How often an id is looked at that comes and goes meanwhile."""

Placed: TypeAlias = "tuple[int, NewJob]"
"""A job, and its place in the call."""

Answers: TypeAlias = dict[int, Admission]
"""By place."""


def ingest(connection: Connection, home: Schema, jobs: Sequence[NewJob]) -> Steps[list[Admission]]:
    """Store jobs; one answer per job, in order."""
    yield from begin(connection, home)
    placed = list(enumerate(jobs))
    answers: Answers = {}
    for chunk in _chunks(placed):
        yield from _admit(connection, chunk, answers, is_counted=False)
        if _unanswered(chunk, answers):
            break  # perhaps for a bounded lane, which no later job is to overtake
    looks = 0
    # Those that were not stored at once: replays, conflicts, and jobs of bounded lanes.
    while left := _unanswered(placed, answers):
        looks += 1
        if looks > MOST_LOOKS:
            message = (
                f"job {left[0][1].job_id!r} came and went {MOST_LOOKS} times while it was looked at; roll back, and "
                "try again later"
            )
            raise StoreBusy(message, target=home.target, waited=0.0)
        for chunk in _chunks(left):
            yield from _existing(connection, chunk, answers)
        # What is not there was held back for its lane, or was there a moment ago.
        allowed = yield from _within_bounds(connection, _unanswered(left, answers), answers)
        for chunk in _chunks(allowed):
            yield from _admit(connection, chunk, answers, is_counted=True)
    return [answers[place] for place in range(len(jobs))]


def _unanswered(jobs: Sequence[Placed], answers: Answers) -> list[Placed]:
    return [(place, job) for place, job in jobs if place not in answers]


def _chunks(jobs: Sequence[Placed]) -> Iterator[Sequence[Placed]]:
    return (jobs[start : start + LARGEST_STATEMENT] for start in range(0, len(jobs), LARGEST_STATEMENT))


def _content(chunk: Sequence[Placed]) -> list[list[Any]]:
    """The columns that tell whether two jobs are the same, with their id first."""
    names = ("job_id", *FIELDS)
    return [[getattr(job, name) for _, job in chunk] for name in names]


def _admit(connection: Connection, chunk: Sequence[Placed], answers: Answers, *, is_counted: bool) -> Steps[None]:
    """Store jobs whose id is free: unless bounds were looked at, only those before the first of a bounded lane."""
    jobs = [job for _, job in chunk]
    rows: list[tuple[Any, ...]] = yield partial(
        connection.query,
        "ingest",
        *_content(chunk),
        [None if job.backoff is None else job.backoff.base for job in jobs],
        [None if job.backoff is None else job.backoff.cap for job in jobs],
        [None if job.backoff is None else job.backoff.jitter for job in jobs],
        [job.timeout for job in jobs],
        [None if job.due_at is None else instant(job.due_at) for job in jobs],
        [None if job.due_at is not None else float(job.delay) for job in jobs],
        is_counted,
    )
    if not rows:
        return
    # All of a statement are admitted at one moment.
    admitted_at = moment(rows[0][3])
    if admitted_at is None:
        first = chunk[int(rows[0][0]) - 1][1].job_id
        admitted_at = microseconds((yield from read(connection, [first]))[first].admitted_at)
    for row in rows:
        place, job = chunk[int(row[0]) - 1]  # places count from one
        answers[place] = Admission(kind="admitted", job_id=job.job_id, job=_admitted(job, admitted_at))


def _admitted(job: NewJob, at: int) -> JobRecord:
    admitted_at = instant(at)
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
        available_at=instant(at + job.delay if job.due_at is None else job.due_at),
    )


def _existing(connection: Connection, chunk: Sequence[Placed], answers: Answers) -> Steps[None]:
    """Ids that are taken: by the same content, or by other content?"""
    rows: list[tuple[Any, ...]] = yield partial(connection.query, "ingest_existing", *_content(chunk))
    if not rows:
        return
    records = yield from read(connection, [job.job_id for _, job in chunk])
    for number, *same, _ in rows:
        place, job = chunk[int(number) - 1]
        stored = records.get(job.job_id)
        if stored is None:
            continue
        difference = ", ".join(field for field, is_same in zip(FIELDS, same, strict=True) if not is_same) or None
        kind = "duplicate" if difference is None else "conflict"
        answers[place] = Admission(kind=kind, job_id=job.job_id, job=stored, difference=difference)


def _within_bounds(connection: Connection, left: Sequence[Placed], answers: Answers) -> Steps[list[Placed]]:
    """Of jobs that are not there, those whose lanes have room; the others are refused."""
    room = yield from _room(connection, sorted({(job.queue, job.lane) for _, job in left}))
    allowed: list[Placed] = []
    seen: set[str] = set()
    for place, job in left:
        if job.job_id in seen:
            continue  # the first one of this id has to be stored or refused before
        seen.add(job.job_id)
        lane = room.get((job.queue, job.lane))
        if lane is not None and lane.left <= 0:
            answers[place] = Admission(kind="refused", job_id=job.job_id, limit=lane.limit)
            continue
        if lane is not None:
            lane.left -= 1
        allowed.append((place, job))
    return allowed


class _Lane:
    """A lane that is bounded."""

    def __init__(self, limit: int, size: int) -> None:
        self.limit = limit
        self.left = max(limit - size, 0)


def _room(connection: Connection, lanes: Sequence[tuple[str, str]]) -> Steps[dict[tuple[str, str], _Lane]]:
    """How much room those of some lanes have that are bounded. Their bounds stay locked until the transaction ends."""
    room: dict[tuple[str, str], _Lane] = {}
    if not lanes:
        return room
    names = [queue for queue, _ in lanes], [lane for _, lane in lanes]
    for queue, lane, limit in (yield partial(connection.query, "lane_limit", *names)):
        if lane == "default":
            ((size,),) = yield partial(connection.query, "lane_size_default", queue, limit)
        else:
            ((size,),) = yield partial(connection.query, "lane_size", queue, lane, limit)
        room[queue, lane] = _Lane(limit, size)
    return room
