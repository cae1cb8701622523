"""A timer that drives a watchdog in an event loop; see :mod:`bandog.timer`."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from bandog.errors import QueueClosed, StoreError
from bandog.timer import LONGEST_RETREAT, POLL, RESTING, seconds_until

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from bandog.async_queue import AsyncQueue
    from bandog.async_watchdog import AsyncWatchdog
    from bandog.wake import WakeCallback

__all__ = ["AsyncTimer"]

logger = logging.getLogger("bandog.timer")


class AsyncTimer:
    """Ticks a :class:`bandog.async_watchdog.AsyncWatchdog` in a task. An asynchronous context manager that starts and
    stops it.
    """

    def __init__(self, queue: AsyncQueue, watchdog: AsyncWatchdog, *, poll: float = POLL) -> None:
        """Make a timer. The arguments are those of :class:`Timer`."""
        self._queue = queue
        self._watchdog = watchdog
        self._poll = poll
        self._task: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._wake: WakeCallback | None = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def start(self) -> None:
        """Start ticking in the running loop. Starting twice is allowed."""
        if self._task is None:
            self._stopped = asyncio.Event()
            self._task = asyncio.create_task(self._run(), name="bandog-timer")

    async def stop(self) -> None:
        """Start no more ticks, and wait for the one under way. Stopping twice is allowed."""
        task, self._task = self._task, None
        if task is not None:
            self._stopped.set()
            if self._wake is not None:
                self._wake(None)
            await task

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def wake(_due: datetime | None) -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(changed.set)

        self._wake = wake
        self._queue.wake.add(wake)
        try:
            await self._tick_until_stopped(changed)
        finally:
            self._queue.wake.remove(wake)

    async def _tick_until_stopped(self, changed: asyncio.Event) -> None:
        retreat = self._poll
        while not self._stopped.is_set():
            changed.clear()
            try:
                tick = await self._watchdog.tick()
                retreat = self._poll
                if tick.kind not in RESTING:
                    continue
                pause = seconds_until(await self._queue.next_wake(), self._poll)
            except QueueClosed:
                return
            except StoreError as error:
                logger.warning("a tick failed and is tried again in %.0f s: %s", retreat, error)
                retreat = await self._retreat(retreat)
                continue
            except Exception:
                # A timer that ends without a word would leave the queue to grow.
                logger.exception("a tick raised and is tried again in %.0f s", retreat)
                retreat = await self._retreat(retreat)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await changed.wait()

    async def _retreat(self, seconds: float) -> float:
        """Leave a failing store alone for so long, whatever is reported meanwhile. Returns how long next time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        return min(seconds * 2, LONGEST_RETREAT)
