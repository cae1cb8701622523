"""What runs in a child process of a worker: one job at a time, handed over a pipe.

The child ends at once when its parent does, however that ended: the pipe closes. Signals that a terminal or a service
manager sends to the whole group are left to the parent, which lets running jobs finish.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import queue
import signal
import threading
from typing import TYPE_CHECKING, Any

from bandog._native import core
from bandog._reports import as_report, failure, of_error, readable, stopped

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from bandog._core import CancellationToken, ClaimedJob
    from bandog.outcome import Report

__all__ = ["main"]


def main(pipe: Connection, execute: Callable[..., Any], payload_limit: int) -> None:
    """Run jobs until the pipe closes."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        number: signal.Signals | None = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_IGN)
    jobs: queue.SimpleQueue[tuple[ClaimedJob, CancellationToken]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, jobs), name="bandog-child", daemon=True).start()
    pipe.send("ready")
    while True:
        job, token = jobs.get()
        report = _run(execute, job, token)
        pipe.send(_frozen(report, payload_limit))
        del job, token, report


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


def _run(execute: Callable[..., Any], job: ClaimedJob, token: CancellationToken) -> Report:
    try:
        value = contextvars.copy_context().run(execute, job, token)
        if inspect.isawaitable(value):
            return asyncio.run(_awaited(value, token))
        return as_report(value)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the job gets its outcome and the process lives
        return of_error(error, token)


async def _awaited(awaitable: Any, token: CancellationToken) -> Report:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(awaitable)
    token.add_callback(lambda _reason: loop.call_soon_threadsafe(task.cancel))
    try:
        return as_report(await task)
    except asyncio.CancelledError as error:
        return stopped(token) if token.aborted else of_error(error, token)


def _frozen(report: Report, payload_limit: int) -> Any:
    """The report as the parent can take it: its values as JSON text, so that nothing has to be importable there."""
    try:
        return core.freeze_report(report, payload_limit)
    except BaseException as error:  # noqa: BLE001 - a report that cannot be read is a failure too
        try:
            return core.freeze_report(readable(report, error), payload_limit)
        except BaseException:  # noqa: BLE001 - nor can what it raised
            return core.freeze_report(failure(RuntimeError("the outcome cannot be recorded")), payload_limit)
