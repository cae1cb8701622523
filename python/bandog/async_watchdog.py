"""The tick-driven runtime for coroutines."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from typing import TYPE_CHECKING, Any

from bandog._ticking import Tick, Ticking, drive_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType
    from typing import Self, TypeAlias

    from bandog._core import CancellationToken, ClaimedJob
    from bandog._operations import Seconds
    from bandog._ticking import IsAlive
    from bandog.async_queue import AsyncQueue
    from bandog.outcome import Report

    ExecuteAsync: TypeAlias = Callable[[ClaimedJob, CancellationToken], Awaitable[Report | None]]

__all__ = ["AsyncWatchdog"]


async def _awaited(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """What came of it. Returned, not raised: a task that raises ``SystemExit`` or Ctrl-C takes its loop along."""
    try:
        return await awaitable, None
    except BaseException as error:  # noqa: BLE001 - as above
        return None, error


class AsyncWatchdog(Ticking):
    """:class:`Watchdog` for coroutines: runs one job per ``await tick()``. An asynchronous context manager."""

    # Left to the first claim: it may have to wait for the write lock, and the loop must not.
    _adopts = False

    def __init__(
        self,
        queue: AsyncQueue,
        execute: ExecuteAsync,
        *,
        queues: Sequence[str] | str | None = None,
        lease: Seconds | None = None,
        worker: str | None = None,
        is_alive: IsAlive | None = None,
    ) -> None:
        """Make a runtime. The arguments are those of :class:`Watchdog`.

        ``execute`` is a coroutine function, awaited in the task of :meth:`tick`; ``is_alive`` may be one.
        """
        super().__init__(queue, execute, queues, lease, worker, is_alive)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def _in_context(self, job: ClaimedJob, token: CancellationToken) -> Any:
        context = contextvars.copy_context()
        awaitable = context.run(self._execute, job, token)
        if not inspect.isawaitable(awaitable):
            return awaitable
        # A task has a context of its own. Cancelling the one that waits cancels it, and waits for its end.
        task = asyncio.get_running_loop().create_task(_awaited(awaitable), context=context)
        try:
            value, error = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            if task.cancelled():
                raise  # before it began
            # It may answer the cancellation with a report of its own.
            value, error = task.result()
        try:
            if error is not None:
                raise error
            return value
        finally:
            del task, value, error  # no frame keeps a traceback that keeps it

    def _pause(self, seconds: float) -> Any:
        return asyncio.sleep(seconds)

    def _is_interrupt(self, error: BaseException) -> bool:
        if isinstance(error, asyncio.CancelledError):
            # One that the executor raised by itself is a failure of its own.
            task = asyncio.current_task()
            return task is not None and task.cancelling() > 0
        return super()._is_interrupt(error)

    async def tick(self) -> Tick:
        """As :meth:`Watchdog.tick`.

        Cancelling the task that awaits it cancels the executor: the job is recorded as its failure, and the
        cancellation goes on once that is done.
        """
        if not self._ticking.acquire(blocking=False):
            return Tick(kind="busy")
        try:
            tick: Tick = await drive_async(self._steps())
            return tick
        finally:
            self._ticking.release()
