"""What the verb ``worker`` does: find the executor, open the store, run the worker, tell what was done."""

from __future__ import annotations

import logging
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bandog._cli.executors import ByName, NoExecutorError, find, make_importable
from bandog._cli.exits import ABANDONED, JOBS_FAILED, OK, STORE, UNEXPECTED
from bandog._cli.logs import log_events, set_up_logs
from bandog.worker import Worker

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from bandog._cli.session import Session
    from bandog.events import WorkerStats
    from bandog.queue import Queue

__all__ = ["work"]

logger = logging.getLogger("bandog.worker")

TOLD = (
    "completed",
    "failed",
    "cancelled",
    "outcome_unknown",
    "retried",
    "snoozed",
    "released",
    "stale",
    "recovered",
    "interrupted",
    "unrecorded",
)
"""The counts that are told at the end, where they are not zero."""


class _Signalled(Worker):
    """A worker that knows whether a signal has stopped it."""

    signal_number: int | None = None

    def _on_signal(self, number: int, again: bool) -> None:  # noqa: FBT001 - the worker's
        self.signal_number = number
        super()._on_signal(number, again)


def work(
    session: Session, executor: str, queues: tuple[str, ...], settings: dict[str, Any], *, burst: bool, louder: int
) -> int:
    """Run a worker to its end.

    Args:
        session: which store, and how to answer.
        executor: its name, ``module:attribute``.
        queues: which ones to run; empty for all.
        settings: those of :class:`bandog.Worker`; ``None`` for its default.
        burst: stop once no job is due.
        louder: how many steps more is logged than usual.

    Returns:
        The exit code.

    Raises:
        UsageError: there is no such executor. Others are those of the store and of :class:`bandog.Worker`.
    """
    missing = _is_missing(session)
    make_importable(Path.cwd())
    by_name = settings["processes"] is not None
    try:
        execute = ByName(executor) if by_name else find(executor)
    except NoExecutorError as error:
        raise click.UsageError(str(error), click.get_current_context()) from error
    set_up_logs(louder)
    given = {name: value for name, value in settings.items() if value is not None}
    if logger.isEnabledFor(logging.DEBUG):
        given["on_events"] = log_events
    with session.queue(create=True) as queue:
        if missing is not None:
            logger.warning("there was no file %r: it was made, and has no job yet", str(missing))
        running = _Signalled(queue, execute, queues=queues or None, **given)
        try:
            with _progress(session, queue, running, queues) if burst else nullcontext():
                running.run(burst=burst)
        except SystemExit as error:  # the second signal
            return error.code if isinstance(error.code, int) else UNEXPECTED
    stats = running.stats()
    number = running.signal_number if burst else None
    _tell(session, stats, "drained" if burst and number is None else "stopped")
    return _code(stats, number, burst=burst)


def _is_missing(session: Session) -> Path | None:
    file = session.file()
    return file if file is not None and not file.exists() else None


def _progress(
    session: Session, queue: Queue, running: Worker, queues: tuple[str, ...]
) -> AbstractContextManager[object]:
    """A progress bar, where somebody watches standard error. It draws over lines that a script could not read."""
    if session.as_json or sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison] - (2>&-)
        return nullcontext()
    from bandog._cli.progress import ProgressBar  # noqa: PLC0415 - loads rich, which a worker has no other use for

    return ProgressBar(queue, running, queues)


def _tell(session: Session, stats: WorkerStats, what: str) -> None:
    counts = [f"{count} {name}" for name in TOLD if (count := getattr(stats, name)) or name == "completed"]
    session.answer(asdict(stats), [what, *counts])


def _code(stats: WorkerStats, number: int | None, *, burst: bool) -> int:
    if stats.unrecorded:
        return STORE
    if stats.running:
        return ABANDONED
    if number is not None:
        return 128 + number
    return JOBS_FAILED if burst and stats.failed + stats.interrupted else OK
