"""Executors in threads: each takes a job, runs it to its end, and takes the next.

The threads are daemons: one that never comes back keeps neither a shutdown nor the interpreter's end from happening.
No native code is on their stacks while an executor runs, since a thread that the interpreter ends inside it would abort
the process.
"""

from __future__ import annotations

import inspect
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bandog._reports import as_report, is_obedient, of_error, readable
from bandog.stores.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from bandog._core import CancellationToken, ClaimedJob, Pool
    from bandog.outcome import Report

__all__ = ["Threads", "fields_of", "log_failure"]

logger = logging.getLogger("bandog.worker")


class Threads:
    """So many threads that run jobs of one pool."""

    def __init__(self, execute: Callable[..., Any], concurrency: int, context: Context) -> None:
        """``context`` is what each job gets a copy of."""
        self._execute = execute
        self._context = context
        self._concurrency = concurrency

    def start(self, pool: Pool, on_end: Callable[[], object]) -> None:
        """Start the threads. They end by themselves once the pool has no more jobs, and then call ``on_end``."""
        for number in range(1, self._concurrency + 1):
            name = f"bandog-worker-{number}"
            threading.Thread(target=self._run, args=(pool, on_end), name=name, daemon=True).start()

    def kill(self) -> None:
        """Threads cannot be killed."""

    def _run(self, pool: Pool, on_end: Callable[[], object]) -> None:
        # Looked up once: a no-op job takes two microseconds, and this loop is most of them.
        following, execute, copy = pool.next, self._execute, self._context.copy
        running = Running()
        jobs, ended = running.jobs, running.ended
        slot: int | None = None
        report: Report | None = None
        stand_in: Report | None = None
        while True:
            try:
                task = following(slot, report)
            except BaseException as error:
                if slot is None or report is None or report is stand_in:
                    raise
                # A report that cannot be read is a failure too. What stands in for it is of text alone.
                report = stand_in = readable(report, error)
                continue
            if task is None:
                on_end()
                return
            slot, job, token = task
            jobs[slot] = job
            try:
                report = copy().run(execute, job, token)
                if report is not None:
                    report = _checked(report)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the job gets its outcome and the thread lives
                report = of_error(error, token)
                log_failure(job, token, error)
            report = ended(slot, report)
            del task, job, token  # nothing is kept alive while the next job is waited for


def _checked(value: Any) -> Report:
    if inspect.iscoroutine(value):
        value.close()
        message = "the executor returned a coroutine: give the worker a coroutine function, or return an outcome"
        raise TypeError(message)
    return as_report(value)


def log_failure(job: ClaimedJob, token: CancellationToken, error: BaseException) -> None:
    """Log that an executor raised, with the job's identity as fields. Not for one that stopped as it was told."""
    if is_obedient(error, token):
        return
    # A filter or handler of the host's may raise, and must not cost the job its outcome and the worker its slot.
    with suppress(BaseException):
        logger.warning("job %r raised (attempt %d)", job.job_id, job.attempt, exc_info=error, extra=fields_of(job))


def fields_of(job: ClaimedJob) -> dict[str, Any]:
    """What a log record about a job has as attributes."""
    return {"job_id": job.job_id, "queue": job.queue, "attempt": job.attempt}
