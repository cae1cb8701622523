"""The queue: admit jobs, claim them, settle them, look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bandog._opening import DEFAULT_PAYLOAD_LIMIT, open_engine
from bandog._operations import DEFAULT_LEASE, Operations, failed
from bandog.job import Backoff, Job
from bandog.management import Management
from bandog.outcome import Cancelled, Completed, OutcomeUnknown, Release, Report, Settlement
from bandog.wake import WakeCalls

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from bandog._core import Admission, ClaimedJob, Engine
    from bandog._operations import Claim, Seconds
    from bandog.testing import FakeClock
    from bandog.wake import WakeCallback

__all__ = ["Queue", "connect"]


def connect(
    url: str | os.PathLike[str],
    *,
    synchronous: str | None = None,
    busy_timeout: Seconds | None = None,
    payload_limit: int = DEFAULT_PAYLOAD_LIMIT,
    allow_network_filesystem: bool = False,
    clock: FakeClock | None = None,
    wake: WakeCallback | None = None,
    schema: str | None = None,
) -> Queue:
    """Open a queue.

    Args:
        url: a path, ``sqlite:///relative.sqlite`` or ``sqlite:////absolute.sqlite``, the latter two also with
            ``synchronous`` and ``busy_timeout`` as options after a ``?``. An SQLite file that is missing, or that has
            none of bandog's tables, gets them; tables that are there are never changed. Or
            ``postgresql://user@host/database`` with libpq's options; what it leaves out is taken from the ``PG*``
            variables and the password file. The tables there are made by :func:`bandog.migrate`. Three options are
            bandog's own. ``notify=0`` (default 1): other hosts are not told of queued jobs, nor heard, and jobs are
            found by polling alone. Else they are told by a ``NOTIFY`` in a transaction of its own, on the channel that
            has the schema's name, and heard by a ``LISTEN`` while there is a worker or a wake. ``listen_host`` and
            ``listen_port``: the server itself, where ``host`` is a pooler, whose sessions cannot be listened to.
        synchronous: ``"full"`` (the default): a job that was admitted survives a power cut. ``"normal"``: it survives
            the death of the process, and a power cut may take the latest ones back; commits are several times faster.
        busy_timeout: seconds (float) or ``timedelta`` that a call waits for a lock that another connection holds: on
            the file, or on rows. Default 5.
        payload_limit: the most bytes that a payload, result or evidence may have as canonical JSON. Default 1 MiB.
        allow_network_filesystem: open a file on a network file system at your own risk. Default ``False``.
        wake: called after durable changes with the time of the next due work (an aware ``datetime``, or ``None`` with
            nothing pending), from a thread of bandog's, under no lock; a burst of changes is one call. Always only a
            hint: changes by other processes are not seen. What it raises is logged. See :attr:`Queue.wake` for more
            of them.
        clock: a clock that a test moves; ``None`` (the default) for the machine's. PostgreSQL's times are the server's:
            there it only tells when this process gives up a claim that it could not renew.
        schema: the schema that holds the tables in a PostgreSQL database. Default ``"bandog"``.

    Returns:
        An open queue. It may be shared by threads, not with forked children: they connect anew.

    Raises:
        CannotOpen: not a usable file (it was not touched), or a server that cannot be reached or refuses.
        SchemaMismatch: tables of another version, or none where :func:`bandog.migrate` makes them.
        StoreBusy: another connection kept the lock for the whole ``busy_timeout``.
        InvalidJob: an argument that is not allowed.
    """
    opened = open_engine(url, synchronous, busy_timeout, payload_limit, allow_network_filesystem, clock, schema)
    engine, name, schema = opened
    queue = Queue(engine, name, clock, schema)
    if wake is not None:
        queue.wake.add(wake)
    return queue


class Queue(Management):
    """An open queue; made by :func:`connect`. Safe to use from many threads. A context manager that closes it."""

    def __init__(self, engine: Engine, name: str, clock: FakeClock | None = None, schema: str | None = None) -> None:
        """Use :func:`connect`."""
        self._operations = Operations(engine, name, clock, schema)
        self._name = name
        self.wake = WakeCalls(engine)

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
        return self._operations.engine

    @property
    def operations(self) -> Operations:
        """What both faces share, for the runtimes of this package."""
        return self._operations

    # Admission

    def ingest(self, job: Job, *, connection: Any = None) -> Admission:
        """Store a job. When this returns, the job survives a crash of the process and of the machine.

        Args:
            job: what to store.
            connection: your own connection to the same database, in a transaction: the job is stored in that, and is
                there if and when you commit it. ``None`` (the default) for one of the queue's. To a file a connection
                of ``sqlite3`` or ``aiosqlite``, to a server one of psycopg 3 or ``asyncpg``; to either one of
                SQLAlchemy (also a session) or Django. Those of coroutines take an :class:`AsyncQueue`. Nothing is
                begun, committed, rolled back, retried or set on it, and what its driver raises is raised unchanged,
                a serialization failure or a deadlock for one: roll back then. On a server, no notice is sent from
                your transaction; the runtimes find the job by their ``poll``.

        Returns:
            An admission whose ``kind`` is ``"admitted"``, or ``"duplicate"`` where the same job is stored already: then
            nothing was created, and ``admission.job`` is the stored job's present state.

        Raises:
            JobConflict: the ``job_id`` is taken by other content. Nothing was changed.
            LaneFull: the lane holds as many queued jobs as :meth:`set_lane_limit` allows. Nothing was stored.
            InvalidJob: a field that no store may accept; ``PayloadError`` for the payload. Nothing was written.
            StoreBusy, StorageFull, StoreFailed: nothing was stored.
        """
        return self._operations.on(connection).ingest(job).wait()

    def ingest_many(self, jobs: Iterable[Job], *, connection: Any = None) -> list[Admission]:
        """Store jobs in one transaction: all of them are durable when this returns, or none.

        Args:
            jobs: what to store.
            connection: your own, in a transaction: see :meth:`ingest`.

        Returns:
            One admission per job, in order: ``admitted``, ``duplicate`` or ``conflict``. A conflict spoils no other
            job.

        Raises:
            InvalidJob: a job that no store may accept, with its ``job_id``. Nothing was written, of any job.
            StoreBusy, StorageFull, StoreFailed: nothing was stored.
        """
        return self._operations.on(connection).ingest_many(jobs).wait()

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
        connection: Any = None,
    ) -> Admission:
        """Store a job, given as its fields.

        See :class:`Job` for them, and :meth:`ingest` for ``connection`` and what is returned and raised.
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
            ),
            connection=connection,
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
        return self._operations.claim(worker, queues, limit, lease).wait()

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
        return self._operations.renew(claim, lease).wait()

    def settle(self, claim: Claim, report: Report, *, connection: Any = None) -> Settlement:
        """End a claim with what became of it.

        Settling it again, because the answer was lost, returns what was recorded the first time, until a later claim of
        the same job has been ended too.

        Args:
            claim: a claimed job, or ``(job_id, lease_token)``.
            report: ``Completed``, ``Failed``, ``Cancelled``, ``OutcomeUnknown``, ``Snooze`` or ``Release``.
            connection: your own, in a transaction: see :meth:`ingest`. The claim ends if and when you commit it,
                together with what you wrote yourself; rolled back, the claim goes on. An executor that settles its own
                job so is never completed by its runtime: where the transaction was not committed, the job has failed.

        Raises:
            StaleClaim: the claim had ended before. Nothing was changed.
            JobNotFound: there is no such job.
            InvalidJob: a report that is none. The claim holds on.
        """
        return self._operations.on(connection).settle(claim, report).wait()

    def settle_many(self, reports: Iterable[tuple[Claim, Report]], *, connection: Any = None) -> list[Settlement]:
        """End claims in one transaction: one settlement per claim, ``stale`` and ``not_found`` among them.

        With ``connection``, those two raise ``StaleClaim`` and ``JobNotFound`` before anything is changed, so that your
        transaction is rolled back. See :meth:`settle`.
        """
        return self._operations.on(connection).settle_many(reports).wait()

    def acknowledge(self, claim: Claim, result: Any = None, *, connection: Any = None) -> Settlement:
        """The work is done. See :class:`Completed` for the result, :meth:`settle` for the rest."""
        return self.settle(claim, Completed(result), connection=connection)

    def fail(
        self,
        claim: Claim,
        reason: str,
        *,
        retry: bool = True,
        retry_in: Seconds | None = None,
        backoff: Backoff | None = None,
        base: Seconds | None = None,
        cap: Seconds | None = None,
        connection: Any = None,
    ) -> Settlement:
        """The work failed. See :class:`Failed` for the arguments, and :meth:`settle` for what is raised.

        ``base`` and ``cap`` (seconds or ``timedelta``) are those of :class:`Backoff`, under the names of seed 2.
        """
        return self.settle(claim, failed(reason, retry, retry_in, backoff, base, cap), connection=connection)

    def cancelled(self, claim: Claim, reason: str | None = None, *, connection: Any = None) -> Settlement:
        """The work was stopped because it was asked for. See :meth:`settle` for what is raised."""
        return self.settle(claim, Cancelled(reason), connection=connection)

    def outcome_unknown(self, claim: Claim, evidence: Any = None, *, connection: Any = None) -> Settlement:
        """Nobody can establish what happened. See :class:`OutcomeUnknown`, and :meth:`settle` for what is raised."""
        return self.settle(claim, OutcomeUnknown(evidence), connection=connection)

    def release(self, claim: Claim, *, connection: Any = None) -> Settlement:
        """Hand a job back at once, the attempt given back. See :meth:`settle` for what is raised."""
        return self.settle(claim, Release(), connection=connection)

    def recover(self, limit: int = 100) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Deal with up to ``limit`` lost claims, as every claim does first.

        Returns:
            The ids of the jobs that were put back, and of those that were settled ``interrupted``.
        """
        return self._operations.recover(limit).wait()

    def close(self) -> None:
        """Finish the calls under way, stop renewing, and let go of the database.

        Later calls raise ``QueueClosed``. Closing twice is allowed; in a forked child it does nothing.
        """
        self._operations.close()
