"""The asynchronous face under the names of the synchronous one, so that one suite runs on both.

The queue lives on an event loop in a thread of its own; a call from any other thread is awaited there. Executors and
probes are plain functions, which may block and use the queue, so that they run beside the loop.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any, Self

import bandog

PATIENCE = 60.0
"""Seconds after which a call counts as hung. A runtime's tick lasts as long as its executor."""


class LoopThread:
    """An event loop in a thread, and what went wrong in it that no caller saw."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _loop, context: self.complaints.append(str(context)))
        self.loop.set_default_executor(ThreadPoolExecutor(32, "beside-the-loop"))
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def call(self, awaitable: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
        """Await a call in the loop, and wait for its answer here."""

        async def awaited() -> tuple[Any, BaseException | None]:
            # As a value, since what a task raises is not always what its loop hands on: KeyboardInterrupt ends a loop.
            try:
                return await awaitable(*arguments, **options), None
            except BaseException as error:  # noqa: BLE001 - raised again by the caller
                return None, error

        assert threading.current_thread() is not self._thread, "a call from the loop would wait for itself"
        value, error = asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(PATIENCE)
        if error is not None:
            raise error
        return value

    def stop(self) -> None:
        """Stop the loop, which must have nothing left to do."""

        async def others() -> set[str]:
            return {repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()}

        left = self.call(others)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the loop does not stop"
        assert not left, left
        assert not self.complaints, self.complaints


class BlockingQueue:
    """An ``AsyncQueue``, to be called from threads that are not its loop's."""

    def __init__(self, thread: LoopThread, queue: bandog.AsyncQueue) -> None:
        self.thread = thread
        self.asynchronous = queue

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.asynchronous, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        @wraps(attribute)
        def called(*arguments: Any, **options: Any) -> Any:
            return self.thread.call(attribute, *arguments, **options)

        return called

    def __repr__(self) -> str:
        return repr(self.asynchronous)

    def __enter__(self) -> Self:
        assert self.thread.call(self.asynchronous.__aenter__) is self.asynchronous
        return self

    def __exit__(self, *raised: object) -> None:
        self.thread.call(self.asynchronous.__aexit__, *raised)


class BlockingWatchdog:
    """An ``AsyncWatchdog`` with a plain function for an executor."""

    def __init__(self, queue: BlockingQueue, execute: Callable[..., Any], **options: Any) -> None:
        self._thread = queue.thread
        if options.get("is_alive") is not None:
            options["is_alive"] = beside_the_loop(options["is_alive"])
        self.asynchronous = bandog.AsyncWatchdog(queue.asynchronous, beside_the_loop(execute), **options)

    def tick(self) -> bandog.Tick:
        return self._thread.call(self.asynchronous.tick)

    def close(self) -> None:
        self.asynchronous.close()

    def __enter__(self) -> Self:
        assert self._thread.call(self.asynchronous.__aenter__) is self.asynchronous
        return self

    def __exit__(self, *raised: object) -> None:
        self._thread.call(self.asynchronous.__aexit__, *raised)


def beside_the_loop(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """A coroutine function that runs a plain one in a thread, and raises in the loop's task what that one raises."""

    def run(*arguments: Any) -> tuple[Any, BaseException | None]:
        # As a value here too: a future refuses StopIteration, and takes CancelledError for its own.
        try:
            return function(*arguments), None
        except BaseException as error:  # noqa: BLE001 - raised again in the task
            return None, error

    async def awaited(*arguments: Any) -> Any:
        value, error = await asyncio.to_thread(run, *arguments)
        if error is not None:
            raise error
        return value

    return awaited
