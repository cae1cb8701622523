"""The tick-driven runtime for coroutines."""

from __future__ import annotations

import asyncio
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


class AsyncWatchdog(Ticking):
    """:class:`Watchdog` for coroutines: runs one job per ``await tick()``. An asynchronous context manager."""

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
