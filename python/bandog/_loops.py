"""Running an event loop to an end that nothing can put off.

``asyncio.run`` waits for every task that is left, also for one that swallows its cancellation, and for the threads of
``asyncio.to_thread``; for those the end of the interpreter waits too. A worker has a time by which it must have
stopped: what has not ended by then is left behind.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["run"]

_T = TypeVar("_T")

PATIENCE = 0.25
"""Seconds that what the program left on the loop has to end once it was cancelled."""

THREADS = 32
"""As many as ``asyncio.to_thread`` has on large machines."""

_abandoned: list[object] = []
"""What has not ended: a task that is thrown away would be complained of."""


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on a loop of its own, and close that."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_Unawaited(THREADS))
    asyncio.set_event_loop(loop)
    task = loop.create_task(main)
    try:
        while not task.done():
            try:
                loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt):
                # A task that an executor made may raise these too, and they end any loop. Signals come another way.
                if task.done():
                    raise
    finally:
        try:
            loop.run_until_complete(_end(loop))
        finally:
            asyncio.set_event_loop(None)
            loop.close()


async def _end(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    # Told before, a job whose time is up: it would not heed another time either, and is promised that there is one.
    told = {task for task in tasks if task.cancelling()}
    _abandoned.extend(told)
    if rest := tasks - told:
        for task in rest:
            task.cancel()
        done, left = await asyncio.wait(rest, timeout=PATIENCE)
        _abandoned.extend(left)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                context = {"message": "a task failed as its loop was closed", "exception": error, "task": task}
                loop.call_exception_handler(context)
    with suppress(TimeoutError):
        await asyncio.wait_for(loop.shutdown_asyncgens(), PATIENCE)


class _Unawaited(ThreadPoolExecutor):
    """Threads that neither the end of the loop nor that of the interpreter waits for."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._most = most
        self._count = 0
        self._idle = threading.Semaphore(0)
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._is_shut_down = False

    def submit(self, call: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        if self._is_shut_down:
            message = "cannot schedule new calls after the worker has stopped"
            raise RuntimeError(message)
        future: Future[_T] = Future()

        def body() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = call(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for it
                future.set_exception(error)
            else:
                future.set_result(result)

        self._calls.put(body)
        if not self._idle.acquire(blocking=False) and self._count < self._most:
            self._count += 1
            threading.Thread(target=self._work, name=f"bandog-call-{self._count}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002, ARG002 - the base's
        self._is_shut_down = True
        for _ in range(self._count):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # what it holds is not kept until the next one comes
            self._idle.release()
