"""What runs in a child process of a worker: one job at a time, handed over a pipe.

The child ends at once when its parent does, however that ended: the pipe closes; and where the system can, it is
killed, because a job that keeps the interpreter would keep the pipe from being looked at. Signals that a terminal or a
service manager sends to the whole group are left to the parent, which lets running jobs finish.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import queue
import signal
import sys
import threading
import traceback as tracebacks
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bandog._native import core
from bandog._reports import as_report, failure, is_obedient, of_error, readable, stopped
from bandog.stores.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from bandog._core import CancellationToken, ClaimedJob
    from bandog.outcome import Report

__all__ = ["main"]

PR_SET_PDEATHSIG = 1
"""As `prctl` has it."""

LONGEST_TRACEBACK = 20_000
"""Characters of a traceback that are handed to the parent: the last ones, which say what was raised."""


def main(pipe: Connection, execute: Callable[..., Any], payload_limit: int) -> None:
    """Run jobs until the pipe closes."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        number: signal.Signals | None = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_IGN)
    _die_with_parent()
    jobs: queue.SimpleQueue[tuple[ClaimedJob, CancellationToken]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, jobs), name="bandog-child", daemon=True).start()
    running = Running()
    pipe.send("ready")
    while True:
        job, token = jobs.get()
        running.jobs[0] = job
        report, trouble = _run(execute, job, token)
        pipe.send((_frozen(running.ended(0, report), payload_limit), trouble))
        del job, token, report


def _die_with_parent() -> None:
    """Linux kills a process with the thread that started it, which here is the one that looks after the child."""
    if sys.platform != "linux":
        return
    with suppress(ImportError, OSError, AttributeError):
        import ctypes  # noqa: PLC0415 - not where there are no children

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _listen(pipe: Connection, jobs: queue.SimpleQueue[tuple[ClaimedJob, CancellationToken]]) -> None:
    """Take what the parent says, while the main thread works."""
    token: CancellationToken | None = None
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            os._exit(1)  # the parent is gone, and with it the claim
        if message[0] == "job":
            token = core.remote_token()
            jobs.put((message[1], token))
        elif token is not None:
            core.abort_token(token, message[1], message[2])


def _run(execute: Callable[..., Any], job: ClaimedJob, token: CancellationToken) -> tuple[Report, str | None]:
    """The report, and the traceback of what was raised, for the parent's log."""
    try:
        value = contextvars.copy_context().run(execute, job, token)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value, token))
        return as_report(value), None
    except BaseException as error:  # noqa: BLE001 - whatever it is, the job gets its outcome and the process lives
        return of_error(error, token), None if is_obedient(error, token) else _traceback(error)


async def _awaited(awaitable: Any, token: CancellationToken) -> Any:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(awaitable)

    def cancel(_reason: str) -> None:
        with suppress(RuntimeError):  # the loop was closed, and the task with it
            loop.call_soon_threadsafe(task.cancel)

    token.add_callback(cancel)
    try:
        return await task
    except asyncio.CancelledError:
        if token.aborted:
            return stopped(token)
        raise


def _traceback(error: BaseException) -> str:
    try:
        return "".join(tracebacks.format_exception(error))[-LONGEST_TRACEBACK:]
    except BaseException:  # noqa: BLE001 - it cannot be shown, and that is no reason to lose the report
        return type(error).__name__


def _frozen(report: Report, payload_limit: int) -> Any:
    """The report as the parent can take it: its values as JSON text, so that nothing has to be importable there."""
    try:
        return core.freeze_report(report, payload_limit)
    except BaseException as error:  # noqa: BLE001 - a report that cannot be read is a failure too
        try:
            return core.freeze_report(readable(report, error), payload_limit)
        except BaseException:  # noqa: BLE001 - nor can what it raised
            return core.freeze_report(failure(RuntimeError("the outcome cannot be recorded")), payload_limit)
