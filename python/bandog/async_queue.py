"""The queue for coroutines: the same names and meanings as :class:`bandog.queue.Queue`, to await.

No call takes a thread or blocks the event loop: the engine's own threads carry it out and hand the result to the
loop. A call whose awaiting task is cancelled is carried out all the same, and claims that nobody takes are handed
back. One queue may be used from several event loops at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bandog._opening import DEFAULT_PAYLOAD_LIMIT, open_engine
from bandog._operations import DEFAULT_LEASE, Operations, failed, in_thread
from bandog.job import Backoff, Job
from bandog.outcome import Cancelled, Completed, OutcomeUnknown, Release, Report, Settlement
from bandog.wake import WakeCalls

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from bandog._core import Admission, ClaimedJob, Engine, JobRecord
    from bandog._operations import Claim, Seconds
    from bandog.answers import Cancellation, FailedLane, Page, Stats
    from bandog.testing import FakeClock
    from bandog.wake import WakeCallback

__all__ = ["AsyncQueue", "connect_async"]


async def connect_async(
    url: str | os.PathLike[str],
    *,
    synchronous: str | None = None,
    busy_timeout: Seconds | None = None,
    payload_limit: int = DEFAULT_PAYLOAD_LIMIT,
    allow_network_filesystem: bool = False,
    clock: FakeClock | None = None,
    wake: WakeCallback | None = None,
    schema: str | None = None,
) -> AsyncQueue:
    """Open a queue for coroutines. Arguments and errors are those of :func:`bandog.connect`."""
    opening = partial(
        open_engine, url, synchronous, busy_timeout, payload_limit, allow_network_filesystem, clock, schema
    )
    engine, name, schema = await in_thread(opening)
    queue = AsyncQueue(engine, name, clock, schema)
    if wake is not None:
        queue.wake.add(wake)
    return queue


class AsyncQueue:
    """An open queue for coroutines; made by :func:`connect_async`. An asynchronous context manager that closes it.

    Every method means what the one of the same name of :class:`bandog.queue.Queue` means.
    """

    def __init__(self, engine: Engine, name: str, clock: FakeClock | None = None, schema: str | None = None) -> None:
        """Use :func:`connect_async`."""
        self._operations = Operations(engine, name, clock, schema)
        self._name = name
        self.wake = WakeCalls(engine)

    def __repr__(self) -> str:
        return f"<bandog.AsyncQueue {self._name!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def engine(self) -> Engine:
        """The native handle, for the runtimes of this package."""
        return self._operations.engine

    @property
    def operations(self) -> Operations:
        """What both faces share, for the runtimes of this package."""
        return self._operations

    async def ingest(self, job: Job, *, connection: Any = None) -> Admission:
        """See :meth:`bandog.queue.Queue.ingest`."""
        return await self._operations.on(connection).ingest(job)

    async def ingest_many(self, jobs: Iterable[Job], *, connection: Any = None) -> list[Admission]:
        """See :meth:`bandog.queue.Queue.ingest_many`."""
        return await self._operations.on(connection).ingest_many(jobs)

    async def enqueue(
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
        timeout: Seconds | None = None,  # noqa: ASYNC109 - a property of the job, not of this call
        connection: Any = None,
    ) -> Admission:
        """See :meth:`bandog.queue.Queue.enqueue`."""
        return await self.ingest(
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

    async def claim(
        self,
        worker: str | None = None,
        *,
        queues: Sequence[str] | str | None = None,
        limit: int = 1,
        lease: Seconds = DEFAULT_LEASE,
    ) -> list[ClaimedJob]:
        """See :meth:`bandog.queue.Queue.claim`."""
        return await self._operations.claim(worker, queues, limit, lease)

    async def renew(self, claim: Claim, *, lease: Seconds = DEFAULT_LEASE) -> str | None:
        """See :meth:`bandog.queue.Queue.renew`."""
        return await self._operations.renew(claim, lease)

    async def settle(self, claim: Claim, report: Report, *, connection: Any = None) -> Settlement:
        """See :meth:`bandog.queue.Queue.settle`."""
        return await self._operations.on(connection).settle(claim, report)

    async def settle_many(self, reports: Iterable[tuple[Claim, Report]], *, connection: Any = None) -> list[Settlement]:
        """See :meth:`bandog.queue.Queue.settle_many`."""
        return await self._operations.on(connection).settle_many(reports)

    async def acknowledge(self, claim: Claim, result: Any = None, *, connection: Any = None) -> Settlement:
        """See :meth:`bandog.queue.Queue.acknowledge`."""
        return await self.settle(claim, Completed(result), connection=connection)

    async def fail(
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
        """See :meth:`bandog.queue.Queue.fail`."""
        return await self.settle(claim, failed(reason, retry, retry_in, backoff, base, cap), connection=connection)

    async def cancelled(self, claim: Claim, reason: str | None = None, *, connection: Any = None) -> Settlement:
        """See :meth:`bandog.queue.Queue.cancelled`."""
        return await self.settle(claim, Cancelled(reason), connection=connection)

    async def outcome_unknown(self, claim: Claim, evidence: Any = None, *, connection: Any = None) -> Settlement:
        """See :meth:`bandog.queue.Queue.outcome_unknown`."""
        return await self.settle(claim, OutcomeUnknown(evidence), connection=connection)

    async def release(self, claim: Claim, *, connection: Any = None) -> Settlement:
        """See :meth:`bandog.queue.Queue.release`."""
        return await self.settle(claim, Release(), connection=connection)

    async def recover(self, limit: int = 100) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """See :meth:`bandog.queue.Queue.recover`."""
        return await self._operations.recover(limit)

    async def read(self, job_id: str) -> JobRecord:
        """See :meth:`bandog.queue.Queue.read`."""
        return await self._operations.read(job_id)

    async def get(self, job_id: str) -> JobRecord:
        """See :meth:`bandog.queue.Queue.get`."""
        return await self.read(job_id)

    async def jobs(
        self,
        *,
        state: str | None = None,
        outcome: str | None = None,
        queue: str | None = None,
        lane: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page:
        """See :meth:`bandog.queue.Queue.jobs`."""
        return await self._operations.jobs(state, outcome, queue, lane, after, limit)

    async def dead_letters(self, *, queue: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """See :meth:`bandog.queue.Queue.dead_letters`."""
        return await self._operations.dead_letters(queue, after, limit)

    async def stats(self, *, bound: int = 10_000) -> Stats:
        """See :meth:`bandog.queue.Queue.stats`."""
        return await self._operations.stats(bound)

    async def has_pending_work(self) -> bool:
        """See :meth:`bandog.queue.Queue.has_pending_work`."""
        return await self._operations.has_pending_work()

    async def next_wake(self) -> datetime | None:
        """See :meth:`bandog.queue.Queue.next_wake`."""
        return await self._operations.next_wake()

    async def cancel(self, job_id: str, reason: str = "cancelled on request") -> Cancellation:
        """See :meth:`bandog.queue.Queue.cancel`."""
        return await self._operations.cancel(job_id, reason)

    async def fail_lane(self, queue: str, lane: str, reason: str, *, limit: int = 1000) -> FailedLane:
        """See :meth:`bandog.queue.Queue.fail_lane`."""
        return await self._operations.fail_lane(queue, lane, reason, limit)

    async def set_lane_limit(self, queue: str, lane: str, limit: int | None) -> None:
        """See :meth:`bandog.queue.Queue.set_lane_limit`."""
        await self._operations.set_lane_limit(queue, lane, limit)

    async def purge(
        self, *, older_than: Seconds, outcomes: Sequence[str] | str | None = None, limit: int = 1000
    ) -> int:
        """See :meth:`bandog.queue.Queue.purge`."""
        return await self._operations.purge(older_than, outcomes, limit)

    async def requeue(self, job_id: str, *, force: bool = False) -> None:
        """See :meth:`bandog.queue.Queue.requeue`."""
        await self._operations.requeue(job_id, force)

    async def close(self) -> None:
        """See :meth:`bandog.queue.Queue.close`."""
        await in_thread(self._operations.close)
