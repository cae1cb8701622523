"""Executors on an event loop: each job is a task, and up to ``concurrency`` of them run at once."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from bandog._reports import as_report, failure, of_error, readable, stopped
from bandog._threads import log_failure
from bandog.errors import QueueClosed
from bandog.stores.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from bandog._core import CancellationToken, ClaimedJob, Pool
    from bandog.outcome import Report

__all__ = ["Coroutines"]


def _nothing() -> None:
    """Until it is started."""


LARGEST_START = 100
"""How many jobs start in one turn of the loop: others have their turn in between."""


class Coroutines:
    """Runs the jobs of one pool as tasks of one loop."""

    def __init__(self, execute: Callable[..., Any], context: Context, loop: asyncio.AbstractEventLoop) -> None:
        """``context`` is what each job gets a copy of."""
        self._execute = execute
        self._context = context
        self._loop = loop
        self._pool: Pool | None = None
        self._on_end: Callable[[], object] = _nothing
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: list[tuple[int, Report | None]] = []
        self._has_turn = False
        self._running = Running()

    def start(self, pool: Pool, on_end: Callable[[], object]) -> None:
        """Take jobs from now on; ``on_end`` is called where there will be no more."""
        self._pool, self._on_end = pool, on_end
        self.available()

    def kill(self) -> None:
        """Cancelling was tried already."""

    def available(self) -> None:
        """Jobs wait. Called from any thread."""
        with suppress(RuntimeError):  # the loop was closed: the claims are recovered once their leases end
            self._loop.call_soon_threadsafe(self._turn)

    def _turn(self) -> None:
        """Hand over what has ended, all of it at once, and start what waits."""
        self._has_turn = False
        pool = self._pool
        if pool is None:
            return
        if self._ended:
            ended, self._ended = self._ended, []
            for slot, report, error in pool.finish_all(ended):
                # A report that cannot be read is a failure too; what stands in for it is read without trouble.
                pool.finish(slot, failure(error) if report is None else readable(report, error))
        create = self._loop.create_task
        try:
            tasks = pool.take(LARGEST_START)
        except QueueClosed:
            self._on_end()
            return
        for slot, job, token in tasks:
            itself: list[asyncio.Task[None]] = []  # a task that has to be looked up costs as much as one that is made
            task = create(self._run(slot, job, token, itself), context=self._context.copy())
            itself.append(task)
            self._tasks.add(task)  # the loop itself holds tasks weakly
        if len(tasks) == LARGEST_START:
            self._take_turn()

    def _take_turn(self) -> None:
        if not self._has_turn:
            self._has_turn = True
            self._loop.call_soon(self._turn)

    async def _run(
        self, slot: int, job: ClaimedJob, token: CancellationToken, itself: list[asyncio.Task[None]]
    ) -> None:
        # Not before: a task that is cancelled before its first step never gets to its end.
        token.add_callback(partial(self._cancel, itself[0]))
        self._running.jobs[slot] = job
        report: Report | None = None
        try:
            value = self._execute(job, token)
            if inspect.isawaitable(value):
                value = await value
            report = None if value is None else as_report(value)
        except asyncio.CancelledError as error:
            if token.aborted:
                report = stopped(token)
            else:  # the executor's own, which is a failure like any other
                report = failure(error)
                log_failure(job, token, error)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the job gets its outcome and the loop lives
            report = of_error(error, token)
            log_failure(job, token, error)
        self._ended.append((slot, self._running.ended(slot, report)))
        self._tasks.discard(itself[0])
        self._take_turn()

    def _cancel(self, task: asyncio.Task[None], _reason: str) -> None:
        """The token was aborted. Called from a thread of bandog's, once."""
        with suppress(RuntimeError):  # the loop was closed, and the task with it
            self._loop.call_soon_threadsafe(task.cancel)
