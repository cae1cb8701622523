"""A queue and a timer that drives a runtime on it, on either face."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from face import BlockingQueue, LoopThread, beside_the_loop

import bandog


class Driven:
    """One face: opens queues, and starts timers whose executors are plain functions."""

    def __init__(self, face: str, path: Path) -> None:
        self.path = path
        self.loop = LoopThread() if face == "async" else None
        self._open: list[Any] = []

    def connect(self, **options: Any) -> Any:
        if self.loop is None:
            queue: Any = bandog.connect(self.path, **options)
        else:
            queue = BlockingQueue(self.loop, self.loop.call(bandog.connect_async, self.path, **options))
        self._open.append(queue)
        return queue

    def make(self, queue: Any, execute: Callable[..., Any], **options: Any) -> Any:
        """A timer with ``start`` and ``stop``, not started."""
        if self.loop is None:
            return bandog.Timer(queue, bandog.Watchdog(queue, execute, lease=60), **options)
        dog = bandog.AsyncWatchdog(queue.asynchronous, beside_the_loop(execute), lease=60)
        return _Blocking(self.loop, bandog.AsyncTimer(queue.asynchronous, dog, **options))

    def scripted(self, queue: Any, tick: Callable[[], bandog.Tick], **options: Any) -> Any:
        """A timer of something that ticks as it is told, not started."""
        dog: Any
        if self.loop is None:
            dog = SimpleNamespace(tick=tick)
            return bandog.Timer(queue, dog, **options)
        dog = SimpleNamespace(tick=beside_the_loop(tick))
        return _Blocking(self.loop, bandog.AsyncTimer(queue.asynchronous, dog, **options))

    @contextmanager
    def timer(self, queue: Any, execute: Callable[..., Any], **options: Any) -> Iterator[Any]:
        """A timer that runs meanwhile."""
        timer = self.make(queue, execute, **options)
        timer.start()
        try:
            yield timer
        finally:
            timer.stop()

    def close(self) -> None:
        while self._open:
            self._open.pop().close()
        if self.loop is not None:
            self.loop.stop()


class _Blocking:
    """An ``AsyncTimer``, started and stopped from another thread."""

    def __init__(self, loop: LoopThread, timer: bandog.AsyncTimer) -> None:
        self._loop, self.asynchronous = loop, timer

    def start(self) -> None:
        async def start() -> None:
            self.asynchronous.start()

        self._loop.call(start)

    def stop(self) -> None:
        self._loop.call(self.asynchronous.stop)
