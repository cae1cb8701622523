"""The queue: admit jobs, claim them, settle them, look at them."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from bandog._native import core
from bandog._url import locate
from bandog.errors import InvalidJob, JobConflict, JobNotFound, StaleClaim
from bandog.job import Backoff, Job
from bandog.outcome import Cancelled, Completed, Failed, OutcomeUnknown, Release, Report, Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType
    from typing import Self, TypeAlias

    from bandog._core import Admission, ClaimedJob, Engine, JobRecord
    from bandog.testing import FakeClock

    Seconds: TypeAlias = float | timedelta
    Claim: TypeAlias = ClaimedJob | tuple[str, str]

__all__ = ["Queue", "connect"]

DEFAULT_LEASE = 120.0
"""Seconds that a claim holds without renewal (seed 1)."""

DEFAULT_PAYLOAD_LIMIT = 1 << 20
"""Bytes of canonical JSON (seed 2)."""


def connect(
    url: str | os.PathLike[str],
    *,
    synchronous: str | None = None,
    busy_timeout: Seconds | None = None,
    payload_limit: int = DEFAULT_PAYLOAD_LIMIT,
    allow_network_filesystem: bool = False,
    clock: FakeClock | None = None,
) -> Queue:
    """Open a queue.

    Args:
        url: a path, ``sqlite:///relative.sqlite`` or ``sqlite:////absolute.sqlite``, the latter two also with
            ``synchronous`` and ``busy_timeout`` as options after a ``?``. An SQLite file that is missing, or that has
            none of bandog's tables, gets them; tables that are there are never changed.
        synchronous: ``"full"`` (the default): a job that was admitted survives a power cut. ``"normal"``: it survives
            the death of the process, and a power cut may take the latest ones back; commits are several times faster.
        busy_timeout: seconds (float) or ``timedelta`` that a call waits for a lock that another connection holds.
            Default 5.
        payload_limit: the most bytes that a payload, result or evidence may have as canonical JSON. Default 1 MiB.
        allow_network_filesystem: open a file on a network file system at your own risk. Default ``False``.
        clock: a clock that a test moves; ``None`` (the default) for the machine's.

    Returns:
        An open queue. It may be shared by threads, not with forked children: they connect anew.

    Raises:
        CannotOpen: not a usable file. It was not touched.
        SchemaMismatch: tables of another version.
        StoreBusy: another connection kept the lock for the whole ``busy_timeout``.
        InvalidJob: an argument that is not allowed.
    """
    location = locate(url)
    if synchronous is None:
        synchronous = location.options.get("synchronous", "full")
    if busy_timeout is None:
        try:
            busy_timeout = float(location.options.get("busy_timeout", "5"))
        except ValueError:
            message = "url: busy_timeout must be a number of seconds"
            raise InvalidJob(message, field="url") from None
    engine = core.Engine.open_sqlite(
        location.path,
        synchronous=synchronous,
        busy_timeout=busy_timeout,
        allow_network_filesystem=allow_network_filesystem,
        payload_limit=payload_limit,
        clock=_native_clock(clock),
    )
    return Queue(engine, str(location.path))


def _native_clock(clock: FakeClock | None) -> core.FakeClock | None:
    if clock is None:
        return None
    native = getattr(clock, "native", None)
    if not isinstance(native, core.FakeClock):
        message = f"clock: must be a bandog.testing.FakeClock or None, not {type(clock).__name__}"
        raise InvalidJob(message, field="clock")
    return native


def default_worker() -> str:
    """A name for the record: host and process. Claims hold by their token, never by it."""
    return f"{socket.gethostname()}-{os.getpid()}"


class Queue:
    """An open queue; made by :func:`connect`. Safe to use from many threads. A context manager that closes it."""

    def __init__(self, engine: Engine, name: str) -> None:
        """Use :func:`connect`."""
        self._engine = engine
        self._name = name

    def __repr__(self) -> str:
        return f"<bandog.Queue {self._name!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def engine(self) -> Engine:
        """The native handle, for the runtimes of this package."""
        return self._engine

    # Admission

    def ingest(self, job: Job) -> Admission:
        """Store a job. When this returns, the job survives a crash of the process and of the machine.

        Args:
            job: what to store.

        Returns:
            An admission whose ``kind`` is ``"admitted"``, or ``"duplicate"`` where the same job is stored already: then
            nothing was created, and ``admission.job`` is the stored job's present state.

        Raises:
            JobConflict: the ``job_id`` is taken by other content. Nothing was changed.
            InvalidJob: a field that no store may accept; ``PayloadError`` for the payload. Nothing was written.
            StoreBusy, StorageFull, StoreFailed: nothing was stored.
        """
        (admission,) = self.ingest_many([job])
        if admission.kind == "conflict":
            difference = admission.difference or "content"
            message = (
                f"job {admission.job_id!r} is already stored with another {difference}; nothing was changed. "
                "Use a new job_id for different work"
            )
            raise JobConflict(message, job_id=admission.job_id, difference=difference)
        return admission

    def ingest_many(self, jobs: Iterable[Job]) -> list[Admission]:
        """Store jobs in one transaction: all of them are durable when this returns, or none.

        Args:
            jobs: what to store.

        Returns:
            One admission per job, in order: ``admitted``, ``duplicate`` or ``conflict``. A conflict spoils no other
            job.

        Raises:
            InvalidJob: a job that no store may accept, with its ``job_id``. Nothing was written, of any job.
            StoreBusy, StorageFull, StoreFailed: nothing was stored.
        """
        return self._engine.ingest(list(jobs)).wait()

    def enqueue(
        self,
        payload: Any = None,
        *,
        queue: str = "default",
        lane: str = "default",
        job_id: str | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
        max_recoveries: int | None = None,
        available_at: datetime | None = None,
        delay: Seconds | None = None,
        backoff: Backoff | None = None,
        timeout: Seconds | None = None,
    ) -> Admission:
        """Store a job, given as its fields.

        See :class:`Job` for them, and :meth:`ingest` for what is returned and raised.
        """
        return self.ingest(
            Job(
                payload=payload,
                job_id=job_id,
                queue=queue,
                lane=lane,
                priority=priority,
                max_attempts=max_attempts,
                max_recoveries=max_recoveries,
                available_at=available_at,
                delay=delay,
                backoff=backoff,
                timeout=timeout,
            )
        )

    # Claims

    def claim(
        self,
        worker: str | None = None,
        *,
        queues: Sequence[str] | str | None = None,
        limit: int = 1,
        lease: Seconds = DEFAULT_LEASE,
    ) -> list[ClaimedJob]:
        """Recover up to 100 lost claims, then claim due jobs. The caller renews and settles them.

        Args:
            worker: a name for the record; ``None`` for host and process.
            queues: a queue or several; ``None`` (the default) for all of them.
            limit: the most jobs to claim, at least 1. Default 1.
            lease: seconds (float) or ``timedelta`` that each claim holds without :meth:`renew`; at least 0.5. Default
                120.

        Returns:
            The claims, by priority, then ``available_at``, then admission; empty where no job is due.

        Raises:
            InvalidJob: an argument that is not allowed.
            StoreBusy, StorageFull, StoreFailed: nothing was claimed.
        """
        claims, _, _, _ = self._engine.claim(
            worker=default_worker() if worker is None else worker,
            queues=queue_names(queues),
            limit=limit,
            lease=lease,
            keep=False,
        ).wait()
        return claims

    def renew(self, claim: Claim, *, lease: Seconds = DEFAULT_LEASE) -> str | None:
        """Prolong a claim.

        Args:
            claim: a claimed job, or ``(job_id, lease_token)``.
            lease: seconds (float) or ``timedelta`` from now; at least 0.5. Default 120.

        Returns:
            The reason with which the job's cancellation was asked for, ``None`` where it was not.

        Raises:
            StaleClaim: the claim has ended. Stop working on the job.
            JobNotFound: there is no such job.
        """
        ((word, cancel_requested),) = self._engine.renew([claim], lease).wait()
        _check(word, claim)
        return cancel_requested

    def settle(self, claim: Claim, report: Report) -> Settlement:
        """End a claim with what became of it.

        Settling it again, because the answer was lost, returns what was recorded the first time, until a later claim of
        the same job has been ended too.

        Args:
            claim: a claimed job, or ``(job_id, lease_token)``.
            report: ``Completed``, ``Failed``, ``Cancelled``, ``OutcomeUnknown``, ``Snooze`` or ``Release``.

        Raises:
            StaleClaim: the claim had ended before. Nothing was changed.
            JobNotFound: there is no such job.
            InvalidJob: a report that is none. The claim holds on.
        """
        (settlement,) = self.settle_many([(claim, report)])
        _check(settlement.kind, claim)
        return settlement

    def settle_many(self, reports: Iterable[tuple[Claim, Report]]) -> list[Settlement]:
        """End claims in one transaction: one settlement per claim, ``stale`` and ``not_found`` among them.

        See :meth:`settle`.
        """
        answers = self._engine.settle(list(reports)).wait()
        return [Settlement(kind, available_at) for kind, available_at in answers]

    def acknowledge(self, claim: Claim, result: Any = None) -> Settlement:
        """The work is done. See :class:`Completed` for the result, and :meth:`settle` for what is raised."""
        return self.settle(claim, Completed(result))

    def fail(
        self,
        claim: Claim,
        reason: str,
        *,
        retry: bool = True,
        retry_in: Seconds | None = None,
        backoff: Backoff | None = None,
    ) -> Settlement:
        """The work failed. See :class:`Failed` for the arguments, and :meth:`settle` for what is raised."""
        return self.settle(claim, Failed(reason, retry, retry_in, backoff))

    def cancelled(self, claim: Claim, reason: str | None = None) -> Settlement:
        """The work was stopped because it was asked for. See :meth:`settle` for what is raised."""
        return self.settle(claim, Cancelled(reason))

    def outcome_unknown(self, claim: Claim, evidence: Any = None) -> Settlement:
        """Nobody can establish what happened. See :class:`OutcomeUnknown`, and :meth:`settle` for what is raised."""
        return self.settle(claim, OutcomeUnknown(evidence))

    def release(self, claim: Claim) -> Settlement:
        """Hand a job back at once, the attempt given back. See :meth:`settle` for what is raised."""
        return self.settle(claim, Release())

    def recover(self, limit: int = 100) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Deal with up to ``limit`` lost claims, as every claim does first.

        Returns:
            The ids of the jobs that were put back, and of those that were settled ``interrupted``.
        """
        return self._engine.recover(limit).wait()

    # Looking

    def read(self, job_id: str) -> JobRecord:
        """Everything that is known of a job.

        Raises:
            JobNotFound: there is no such job.
        """
        (record,) = self._engine.read([job_id]).wait()
        if record is None:
            message = f"there is no job {job_id!r}: it was never admitted, or it has been purged"
            raise JobNotFound(message, job_id=job_id)
        return record

    def has_pending_work(self) -> bool:
        """Whether any job is queued (also for later) or running."""
        return self._engine.has_pending_work().wait()

    def next_wake(self) -> datetime | None:
        """When the next queued job is due or the next claim expires, an aware ``datetime`` (it may have passed).

        ``None`` with nothing pending.
        """
        return self._engine.next_wake().wait()

    def close(self) -> None:
        """Finish the calls under way, stop renewing, and let go of the database.

        Later calls raise ``QueueClosed``. Closing twice is allowed; in a forked child it does nothing.
        """
        self._engine.close()


def queue_names(queues: Sequence[str] | str | None) -> list[str] | None:
    """The queues that a caller named, as a list; ``None`` for all of them."""
    if queues is None:
        return None
    # A single name is a sequence too: of its letters.
    if isinstance(queues, str):
        return [queues]
    try:
        return list(queues)
    except TypeError:
        message = f"queues: must be a str or a sequence of str, not {type(queues).__name__}"
        raise InvalidJob(message, field="queues") from None


def _check(word: str, claim: Claim) -> None:
    job_id = claim[0] if isinstance(claim, tuple) else claim.job_id
    if word == "stale":
        message = (
            f"the claim on job {job_id!r} no longer holds: its lease expired or another claim replaced it; nothing was "
            "changed. Claim the job again to work on it"
        )
        raise StaleClaim(message, job_id=job_id)
    if word == "not_found":
        message = f"there is no job {job_id!r}: it was never admitted, or it has been purged"
        raise JobNotFound(message, job_id=job_id)
