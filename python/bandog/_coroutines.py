"""Executors on an event loop: each job is a task, and up to ``concurrency`` of them run at once."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from bandog._reports import as_report, of_error, readable, stopped
from bandog._threads import log_failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from bandog._core import CancellationToken, ClaimedJob, Pool
    from bandog.outcome import Report

__all__ = ["Coroutines"]

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
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = False

    def start(self, pool: Pool) -> None:
        """Take jobs from now on."""
        self._pool = pool
        self.available()

    def kill(self) -> None:
        """Cancelling was tried already."""

    def available(self) -> None:
        """Jobs wait. Called from any thread."""
        with suppress(RuntimeError):  # the loop was closed: the claims are recovered once their leases end
            self._loop.call_soon_threadsafe(self._start_jobs)

    def _start_jobs(self) -> None:
        self._starting = False
        pool = self._pool
        if pool is None:
            return
        tasks = pool.take(LARGEST_START)
        for slot, job, token in tasks:
            task = self._loop.create_task(self._run(pool, slot, job, token), context=self._context.copy())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if len(tasks) == LARGEST_START:
            self._start_soon()

    def _start_soon(self) -> None:
        if not self._starting:
            self._starting = True
            self._loop.call_soon(self._start_jobs)

    async def _run(self, pool: Pool, slot: int, job: ClaimedJob, token: CancellationToken) -> None:
        if (task := asyncio.current_task()) is not None:
            token.add_callback(partial(self._cancel, task))
        report: Report | None = None
        try:
            value = self._execute(job, token)
            if inspect.isawaitable(value):
                value = await value
            report = None if value is None else as_report(value)
        except asyncio.CancelledError as error:
            # Ours, since the token was aborted; or the executor's own, which is a failure like any other.
            report = stopped(token) if token.aborted else of_error(error, token)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the job gets its outcome and the loop lives
            report = of_error(error, token)
            log_failure(job, report, error)
        try:
            pool.finish(slot, report)
        except BaseException as error:  # noqa: BLE001 - a report that cannot be read is a failure too
            pool.finish(slot, None if report is None else readable(report, error))
        self._start_soon()

    def _cancel(self, task: asyncio.Task[Any], _reason: str) -> None:
        """The token was aborted. Called from a thread of bandog's, once."""
        with suppress(RuntimeError):  # the loop was closed, and the task with it
            self._loop.call_soon_threadsafe(task.cancel)
