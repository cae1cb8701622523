"""What every operation does, once: how its arguments reach the engine, and what its answer means.

The two faces of a queue only wait: :class:`bandog.queue.Queue` with :meth:`Call.wait`,
:class:`bandog.async_queue.AsyncQueue` with ``await``.
"""

from __future__ import annotations

import os
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bandog._native import core
from bandog.answers import Cancellation, FailedLane, Page, QueueStats, Snapshot, Stats
from bandog.errors import InvalidJob, JobConflict, JobNotFound, LaneFull, RequeueRefused, StaleClaim
from bandog.job import Backoff, Job
from bandog.outcome import Failed, Release, Report, Settlement
from bandog.stores.elsewhere import Elsewhere, Home, Schema, identity

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Generator, Iterable, Sequence
    from datetime import datetime, timedelta
    from typing import TypeAlias

    from bandog._core import Admission, CancellationToken, ClaimedJob, Completion, Engine, JobRecord
    from bandog.stores.driving import Borrowed
    from bandog.testing import FakeClock

    Seconds: TypeAlias = float | timedelta
    Claim: TypeAlias = ClaimedJob | tuple[str, str]
    Kept: TypeAlias = tuple[list[ClaimedJob], list[CancellationToken | None], tuple[str, ...], tuple[str, ...]]

__all__ = ["DEFAULT_LEASE", "Call", "Operations", "default_worker", "queue_names"]

DEFAULT_LEASE = 120.0
"""Seconds that a claim holds without renewal (seed 1)."""

OUTCOMES = ("completed", "failed", "cancelled", "outcome_unknown", "interrupted")

_T = TypeVar("_T")


class Call(Generic[_T]):
    """An operation under way. It goes on whether or not anybody waits for it."""

    __slots__ = ("_completion", "_convert", "_undo")

    def __init__(
        self,
        completion: Completion[Any],
        convert: Callable[[Any], _T],
        undo: Callable[[Any], None] | None = None,
    ) -> None:
        """``convert`` makes the answer of the engine's; ``undo`` undoes one that nobody takes any more."""
        self._completion = completion
        self._convert = convert
        self._undo = undo

    def wait(self) -> _T:
        """Wait in this thread, outside the interpreter."""
        return self._convert(self._completion.wait())

    def __await__(self) -> Generator[Any, None, _T]:
        import asyncio  # noqa: PLC0415 - whoever awaits has it loaded already, and the others need not

        loop = asyncio.get_running_loop()
        future: Future[Any] = loop.create_future()

        def resolve(value: Any, error: BaseException | None) -> None:
            if future.cancelled():
                self._abandon(value, error)
            elif error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        def deliver(value: Any, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(resolve, value, error)
            except RuntimeError:  # the loop was closed meanwhile
                self._abandon(value, error)

        self._completion.then(deliver)
        try:
            value = yield from future
        except BaseException:
            # Cancelled between the answer and this task: nobody else will take it.
            if future.done() and not future.cancelled() and future.exception() is None:
                self._abandon(future.result(), None)
            raise
        return self._convert(value)

    def _abandon(self, value: Any, error: BaseException | None) -> None:
        if self._undo is not None and error is None:
            self._undo(value)


def in_thread(call: Callable[[], _T]) -> Call[_T]:
    """A blocking call on a thread of the engine's.

    The loop's own executor takes none while the interpreter shuts down.
    """
    return Call(core.in_thread(call), _same)


class Operations:
    """Every operation on one engine, each under the name that it has everywhere."""

    def __init__(self, engine: Engine, name: str, clock: FakeClock | None = None, schema: str | None = None) -> None:
        """The others are for operations on connections of the caller's.

        Args:
            engine: of an open store.
            name: the path of its file, or the name of its server.
            clock: a test's.
            schema: that of its tables in a PostgreSQL database; ``None`` for an SQLite file.
        """
        self.engine = engine
        home: Home | Schema
        if schema is None:
            home = Home(str(Path(name).absolute()), identity(name), clock)
        else:
            # Of the engine and not of this object, which would hold itself: a queue that is dropped ends at once.
            home = Schema(schema, name, partial(_schema_identity, engine))
        self._elsewhere = Elsewhere(engine, home, _check)

    def close(self) -> None:
        """Finish what was asked for, and close the engine."""
        self._elsewhere.is_closed = True
        self.engine.close()

    def on(self, connection: Any) -> Operations | OnConnection:
        """The operations in the transaction of the caller's own connection; with ``None`` these."""
        if connection is None:
            return self
        return OnConnection(self._elsewhere, connection)

    # Admission

    def ingest(self, job: Job) -> Call[Admission]:
        return Call(self.engine.ingest([job]), partial(_admission, job))

    def ingest_many(self, jobs: Iterable[Job]) -> Call[list[Admission]]:
        return Call(self.engine.ingest(list(jobs)), _same)

    # Claims

    def claim(
        self, worker: str | None, queues: Sequence[str] | str | None, limit: int, lease: Seconds
    ) -> Call[list[ClaimedJob]]:
        if lease is None:  # pyright: ignore[reportUnnecessaryComparison] - not every caller is checked
            # To the engine it means a claim without an end, which only a runtime with a liveness probe may make.
            message = "lease: must be seconds (int or float) or a timedelta, not NoneType"
            raise InvalidJob(message, field="lease")
        completion = self.engine.claim(
            worker=default_worker() if worker is None else worker,
            queues=queue_names(queues),
            limit=limit,
            lease=lease,
            keep=False,
        )
        return Call(completion, _claims, self._release)

    def claim_kept(self, worker: str, queues: list[str] | None, limit: int, lease: Seconds | None) -> Call[Kept]:
        """Claims that the engine renews until they are let go."""
        completion = self.engine.claim(worker=worker, queues=queues, limit=limit, lease=lease, keep=True)
        return Call(completion, _same, self._release)

    def _release(self, answer: Kept) -> None:
        """Hand back claims that nobody waits for: they would keep their jobs from everybody until the lease ends."""
        claims = answer[0]
        for claim in claims:
            self.engine.let_go(claim)
        if claims:
            self.engine.settle([(claim, Release()) for claim in claims])

    def renew(self, claim: Claim, lease: Seconds) -> Call[str | None]:
        def convert(answers: list[tuple[str, str | None]]) -> str | None:
            ((word, cancel_requested),) = answers
            _check(word, _job_id(claim))
            return cancel_requested

        return Call(self.engine.renew([claim], lease), convert)

    def settle(self, claim: Claim, report: Report) -> Call[Settlement]:
        return Call(self.engine.settle([(claim, report)]), partial(_settlement, claim))

    def settle_many(self, reports: Iterable[tuple[Claim, Report]]) -> Call[list[Settlement]]:
        return Call(self.engine.settle(list(reports)), _settlements)

    def recover(self, limit: int) -> Call[tuple[tuple[str, ...], tuple[str, ...]]]:
        return Call(self.engine.recover(limit), _same)

    # Looking

    def read(self, job_id: str) -> Call[JobRecord]:
        def convert(records: list[JobRecord | None]) -> JobRecord:
            (record,) = records
            if record is None:
                raise _not_found(job_id)
            return record

        return Call(self.engine.read([job_id]), convert)

    def jobs(
        self,
        state: str | None,
        outcome: str | None,
        queue: str | None,
        lane: str | None,
        after: str | None,
        limit: int,
    ) -> Call[Page]:
        answer = self.engine.jobs(state=state, outcome=outcome, queue=queue, lane=lane, after=after, limit=limit)
        return Call(answer, _page)

    def dead_letters(self, queue: str | None, after: str | None, limit: int) -> Call[Page]:
        return Call(self.engine.dead_letters(queue, after, limit), _page)

    def stats(self, bound: int) -> Call[Stats]:
        def convert(
            answer: tuple[
                list[tuple[str, int, int, int, datetime | None]],
                list[tuple[str, int]],
                tuple[str, str, str | None, float | None, int] | None,
            ],
        ) -> Stats:
            queues, outcomes, snapshot = answer
            by_name = {name: QueueStats(queued, due, running, oldest) for name, queued, due, running, oldest in queues}
            return Stats(by_name, dict(outcomes), bound, None if snapshot is None else Snapshot(*snapshot))

        return Call(self.engine.stats(bound), convert)

    def has_pending_work(self) -> Call[bool]:
        return Call(self.engine.has_pending_work(), _same)

    def next_wake(self) -> Call[datetime | None]:
        return Call(self.engine.next_wake(), _same)

    # Changing

    def cancel(self, job_id: str, reason: str) -> Call[Cancellation]:
        def convert(answers: list[tuple[str, str | None]]) -> Cancellation:
            ((word, outcome),) = answers
            if word == "not_found":
                raise _not_found(job_id)
            return Cancellation(word, outcome)

        return Call(self.engine.cancel([(job_id, reason)]), convert)

    def fail_lane(self, queue: str, lane: str, reason: str, limit: int) -> Call[FailedLane]:
        return Call(self.engine.fail_lane(queue, lane, reason, limit), _failed_lane)

    def set_lane_limit(self, queue: str, lane: str, limit: int | None) -> Call[None]:
        return Call(self.engine.set_lane_limit(queue, lane, limit), _same)

    def purge(self, older_than: Seconds, outcomes: Sequence[str] | str | None, limit: int) -> Call[int]:
        if outcomes is None:
            outcomes = OUTCOMES
        return Call(self.engine.purge(older_than, _names("outcomes", outcomes), limit), _same)

    def requeue(self, job_id: str, force: bool) -> Call[None]:  # noqa: FBT001 - named by both faces
        def convert(answers: list[tuple[str, str | None]]) -> None:
            ((word, outcome),) = answers
            if word == "not_found":
                raise _not_found(job_id)
            if word == "not_settled":
                message = f"job {job_id!r} is queued or running and needs no requeue; nothing was changed"
                raise RequeueRefused(message, job_id=job_id, outcome=None)
            if word == "refused":
                remedy = (
                    "a completed job is never run again; ingest the work under a new job_id"
                    if outcome == "completed"
                    else "pass force=True to run it again all the same"
                )
                message = f"job {job_id!r} is {outcome}; nothing was changed: {remedy}"
                raise RequeueRefused(message, job_id=job_id, outcome=outcome)

        return Call(self.engine.requeue([job_id], force), convert)

    # Liveness probes

    def probe(self, after: str | None) -> Call[tuple[JobRecord, str, int, str] | None]:
        return Call(self.engine.probe(after), _same)

    def recover_claim(self, number: int, token: str) -> Call[tuple[tuple[str, ...], tuple[str, ...]]]:
        return Call(self.engine.recover_claim(number, token), _same)


class OnConnection:
    """The operations that a caller's transaction may hold, each under the name that it has everywhere."""

    def __init__(self, elsewhere: Elsewhere, connection: Any) -> None:
        self._elsewhere = elsewhere
        self._connection = connection

    def ingest(self, job: Job) -> Borrowed[Admission]:
        return self._elsewhere.ingest([job], self._connection, partial(_admission, job))

    def ingest_many(self, jobs: Iterable[Job]) -> Borrowed[list[Admission]]:
        return self._elsewhere.ingest(list(jobs), self._connection, _same)

    def settle(self, claim: Claim, report: Report) -> Borrowed[Settlement]:
        return self._elsewhere.settle([(claim, report)], self._connection, partial(_settlement, claim))

    def settle_many(self, reports: Iterable[tuple[Claim, Report]]) -> Borrowed[list[Settlement]]:
        return self._elsewhere.settle(list(reports), self._connection, _settlements)


def failed(
    reason: str,
    retry: bool,  # noqa: FBT001 - named by both faces
    retry_in: Seconds | None,
    backoff: Backoff | None,
    base: Seconds | None,
    cap: Seconds | None,
) -> Failed:
    """The report of ``fail(…)``: a back-off as one value, or as ``base`` and ``cap`` under the names of seed 2."""
    if base is not None or cap is not None:
        if backoff is not None:
            message = "backoff: cannot be given together with base or cap"
            raise InvalidJob(message, field="backoff")
        default = Backoff()
        if cap is None and base is not None and base_exceeds(base, default.cap):
            base = default.cap  # the wait is min(cap, base * 2 ** n), whatever the base
        backoff = Backoff(default.base if base is None else base, default.cap if cap is None else cap)
    return Failed(reason, retry, retry_in, backoff)


def base_exceeds(base: Any, cap: Any) -> bool:
    """Whether a base is beyond a cap of so many seconds. Of what is no duration the engine will say so."""
    seconds = getattr(base, "total_seconds", lambda: base)()
    return isinstance(seconds, (int, float)) and seconds > cap


def default_worker() -> str:
    """A name for the record: host and process. Claims hold by their token, never by it."""
    return f"{socket.gethostname()}-{os.getpid()}"


def queue_names(queues: Sequence[str] | str | None) -> list[str] | None:
    """The queues that a caller named, as a list; ``None`` for all of them."""
    return None if queues is None else _names("queues", queues)


def _names(field: str, names: Sequence[str] | str) -> list[str]:
    # A single name is a sequence too: of its letters.
    if isinstance(names, str):
        return [names]
    try:
        return list(names)
    except TypeError:
        message = f"{field}: must be a str or a sequence of str, not {type(names).__name__}"
        raise InvalidJob(message, field=field) from None


def _same(answer: Any) -> Any:
    return answer


def _schema_identity(engine: Engine) -> Call[str | None]:
    """Which schema of which database of which server the jobs are in."""
    return Call(engine.schema_identity(), _same)


def _admission(job: Job, admissions: list[Admission]) -> Admission:
    (admission,) = admissions
    if admission.kind == "conflict":
        difference = admission.difference or "content"
        message = (
            f"job {admission.job_id!r} is already stored with another {difference}; nothing was changed. "
            "Use a new job_id for different work"
        )
        raise JobConflict(message, job_id=admission.job_id, difference=difference)
    if admission.kind == "refused":
        limit = admission.limit or 0
        message = (
            f"lane {job.lane!r} of queue {job.queue!r} holds {limit} queued jobs, as many as it may; job "
            f"{admission.job_id!r} was not stored. Try again when some have run, or raise the limit"
        )
        raise LaneFull(message, job_id=admission.job_id, queue=job.queue, lane=job.lane, limit=limit)
    return admission


def _settlement(claim: Claim, answers: list[tuple[str, datetime | None]]) -> Settlement:
    ((kind, available_at),) = answers
    _check(kind, _job_id(claim))
    return Settlement(kind, available_at)


def _claims(answer: Kept) -> list[ClaimedJob]:
    return answer[0]


def _settlements(answers: list[tuple[str, datetime | None]]) -> list[Settlement]:
    return [Settlement(kind, available_at) for kind, available_at in answers]


def _page(answer: tuple[list[JobRecord], str | None]) -> Page:
    records, following = answer
    return Page(tuple(records), following)


def _failed_lane(answer: tuple[int, int]) -> FailedLane:
    failed, left = answer
    return FailedLane(failed, left)


def _not_found(job_id: str) -> JobNotFound:
    return JobNotFound(f"there is no job {job_id!r}: it was never admitted, or it has been purged", job_id=job_id)


def _job_id(claim: Claim) -> str:
    return claim[0] if isinstance(claim, tuple) else claim.job_id


def _check(word: str, job_id: str) -> None:
    if word == "stale":
        message = (
            f"the claim on job {job_id!r} no longer holds: its lease expired or another claim replaced it; nothing was "
            "changed. Claim the job again to work on it"
        )
        raise StaleClaim(message, job_id=job_id)
    if word == "not_found":
        raise _not_found(job_id)
